package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// TestTheStoreEqualsTheModel makes random calls on a store and on the model of the original with
// all differences switched on. Every round has a scope of its own in one file.
func TestTheStoreEqualsTheModel(t *testing.T) {
	clock := dbtest.NewClock(clockBase)
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now})
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		s := &twins{
			clock: clock, store: live.NewStore(d, live.Options{Scope: fmt.Sprint("round ", round)}),
			model: replay.NewLiveModel(replay.CancelledIsFinal, replay.StoredSequenceCounter,
				replay.EventCountKeepsLarger, replay.UnknownEventsKept),
		}
		t.Repeat(map[string]func(*rapid.T){
			"create":  s.create,
			"record":  s.record,
			"fail":    s.fail,
			"cancel":  s.cancel,
			"replace": s.replace,
			"":        s.compare,
		})
	})
}

type twins struct {
	clock *dbtest.Clock
	store *live.Store
	model *replay.LiveModel
	ids   []string
}

func (s *twins) now() uint64 {
	s.clock.Advance(time.Millisecond)
	return uint64(s.clock.Now().UnixMilli())
}

func (s *twins) id(t *rapid.T) string {
	return rapid.SampledFrom(append([]string{"unknown"}, s.ids...)).Draw(t, "run")
}

func (s *twins) same(t *rapid.T, what string, want, got any) {
	t.Helper()
	w, err := json.Marshal(answered(want))
	if err != nil {
		t.Fatal(err)
	}
	g, err := json.Marshal(answered(got))
	if err != nil {
		t.Fatal(err)
	}
	if string(w) != string(g) {
		t.Fatalf("%s: the store has %s, the model %s", what, g, w)
	}
}

func (s *twins) answer(t *rapid.T, what string, want *replay.LiveRun, got live.RunSnapshot, found bool,
	err error,
) {
	t.Helper()
	if err != nil || found != (want != nil) {
		t.Fatalf("%s: found %v, %v; the model has %v", what, found, err, want)
	}
	if found {
		s.same(t, what, want.Snapshot(), got)
	}
}

func (s *twins) create(t *rapid.T) {
	now, prompt := s.now(), rapid.SampledFrom([]string{"", "p", " "}).Draw(t, "prompt")
	run, err := s.store.CreateRun(context.Background(), "s", prompt)
	if err != nil {
		t.Fatal(err)
	}
	s.ids = append(s.ids, run.ID)
	s.same(t, "create", s.model.Create(run.ID, "s", prompt, now).Snapshot(), run)
}

var someEvents = []string{
	`{"type":"agent_start","prompt":"q"}`, `{"type":"planning_start","prompt":"q"}`,
	`{"type":"turn_start","turn":1}`, `{"type":"tool_start","id":"t","name":"n"}`,
	`{"type":"step_start","step_id":"s","description":"d","step_number":1,"total_steps":2}`,
	string(live.AgentEnd("done").JSON()), `{"type":"error","message":"e"}`,
	`{"type":"text_delta","text":"t","more":{}}`, `{"type":"from_the_future"}`, `{"type":"text_delta"}`,
	`{"type":"confirmation_received","tool_id":"t","approved":true}`,
}

func (s *twins) record(t *rapid.T) {
	now, id, text := s.now(), s.id(t), rapid.SampledFrom(someEvents).Draw(t, "event")
	value, err := replay.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want, refused := s.model.Record(id, value, now)
	e, err := live.NewEvent([]byte(text))
	if (err != nil) != (refused != nil) {
		t.Fatalf("%s: %v, the model says %v", text, err, refused)
	}
	if err != nil {
		return
	}
	run, found, err := s.store.RecordEvent(context.Background(), id, e)
	s.answer(t, "record", want, run, found, err)
}

func (s *twins) fail(t *rapid.T) {
	now, id := s.now(), s.id(t)
	run, found, err := s.store.MarkFailed(context.Background(), id, "failed")
	s.answer(t, "fail", s.model.Fail(id, "failed", now), run, found, err)
}

func (s *twins) cancel(t *rapid.T) {
	now, id := s.now(), s.id(t)
	run, found, err := s.store.MarkCancelled(context.Background(), id)
	s.answer(t, "cancel", s.model.Cancel(id, now), run, found, err)
}

// replace takes some of the records that are there, with other counts and without some of their events.
func (s *twins) replace(t *rapid.T) {
	records, err := s.store.Records(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s.ids = nil
	for i := range records {
		r := &records[i]
		r.Snapshot.EventCount = rapid.Uint64Range(0, 12).Draw(t, "count")
		r.Events = r.Events[rapid.IntRange(0, len(r.Events)).Draw(t, "trimmed"):]
		s.ids = append(s.ids, r.Snapshot.ID)
	}
	if len(records) == 0 {
		return
	}
	records = rapid.Permutation(records).Draw(t, "order")
	text, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	value, err := replay.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.model.ReadRecords(value)
	if err != nil {
		t.Fatal(err)
	}
	s.model.Replace(runs)
	if err := s.store.ReplaceRecords(context.Background(), records); err != nil {
		t.Fatal(err)
	}
}

func (s *twins) compare(t *rapid.T) {
	records, err := s.store.Records(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(records) > 0 || len(s.model.Records()) > 0 {
		s.same(t, "records", replay.RecordList(s.model.Records()), records)
	}
}

// There is nothing behind the last number: a count stops there, on both sides.
func TestTheModelCountsUpToTheLastSequence(t *testing.T) {
	store := newStore(t, live.Options{})
	for _, counters := range [][2]uint64{
		{1, 1<<63 - 1},
		{1, 1 << 63},
		{1, 1<<64 - 2},
		{1, 1<<64 - 1},
		{1<<64 - 1, 0},
	} {
		text := fmt.Sprintf(restoredRun, 1, 1, counters[0],
			fmt.Sprintf(`{"sequence":%d,"timestamp_ms":5,"event":{"type":"text_delta","text":"t"}}`, counters[1]))
		value, err := replay.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		model := replay.NewLiveModel(replay.EventCountKeepsLarger)
		runs, err := model.ReadRecords(value)
		if err != nil {
			t.Fatal(err)
		}
		model.Replace(runs)
		if err := store.ReplaceRecords(t.Context(), restored(t, text)); err != nil {
			t.Fatal(err)
		}
		if want, got := model.Find("r").Count, snapshotOf(t, store, "r").EventCount; want != got {
			t.Errorf("event_count %d with sequence %d: the store counts %d, the model %d", counters[0], counters[1],
				got, want)
		}
	}
}
