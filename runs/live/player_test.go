package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

var comparison = replay.Comparison{}

// clockBase is where the players' clock begins. No transcript names a time near it: a number of
// milliseconds in its year came from the clock, and is shown to the comparison as a time.
var clockBase = time.Date(2051, 3, 1, 0, 0, 0, 0, time.UTC)

// A player makes the calls on a store and, where there is one, on the model of the original, twice:
// without and with the differences that the transcript's head names. save and load are what a
// session layer does with exports, in a folder of the old layout.
type player struct {
	t      *testing.T
	script replay.Transcript
	path   string
	clock  *dbtest.Clock
	db     *db.DB
	store  *live.Store
	caps   live.Options
	folder string

	session *live.Session
	current *string         // run
	token   context.Context // nil: there is none
	stop    context.CancelFunc
	hook    *recordingHook
	handles map[string]*live.RunHandle
	marked  map[string]uint64
	kept    map[string][]live.RunRecord

	off, on *modelPlayer // nil for the later API
}

func newPlayer(t *testing.T, script replay.Transcript) *player {
	p := &player{
		t: t, script: script, path: dbtest.Path(t), clock: dbtest.NewClock(clockBase), folder: t.TempDir(),
		session: &live.Session{}, hook: &recordingHook{calls: []map[string]any{}},
		handles: map[string]*live.RunHandle{}, marked: map[string]uint64{}, kept: map[string][]live.RunRecord{},
	}
	if !strings.HasPrefix(script.Base(), "later-") {
		p.off, p.on = newModelPlayer(), newModelPlayer(script.Head.DeliberateDifferences...)
	}
	p.open()
	t.Cleanup(func() {
		if err := p.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *player) open() {
	d, err := db.Open(context.Background(), p.path, db.Options{Now: p.clock.Now, Synchronous: db.SyncNormal})
	if err != nil {
		p.t.Fatal(err)
	}
	p.db, p.store = d, live.NewStore(d, p.caps)
}

type recordingHook struct{ calls []map[string]any }

func (h *recordingHook) RecordRunCancelled(_ context.Context, runID, sessionID, reason string) {
	h.calls = append(h.calls, map[string]any{"run_id": runID, "session_id": sessionID, "reason": reason})
}

// Play makes the call on all that are played, and says by which rule it is judged where theirs differ.
func (p *player) Play(c *replay.Call) replay.Answer {
	p.clock.Advance(time.Millisecond)
	answer := p.call(c)
	if p.off == nil || answer.Wrong != "" {
		return answer
	}
	now := uint64(p.clock.Now().UnixMilli())
	created := ""
	if run, ok := answer.OK.(map[string]any); ok && c.Op == "create_run" {
		created, _ = run["id"].(string)
	}
	off, on := p.off.play(c, created, now), p.on.play(c, created, now)
	answer.Model = &off
	if text(off) != text(on) {
		answer.Rule, answer.Instead = p.rule(c.Op), &on
	}
	return answer
}

func text(o replay.Outcome) string {
	if o.Err != nil {
		return "an error"
	}
	return string(replay.Encode(o.OK))
}

// rule is the number under which testdata/legacy/README.md has the difference.
func (p *player) rule(op string) int {
	has := func(name string) bool { return slices.Contains(p.script.Head.DeliberateDifferences, name) }
	switch {
	case has(replay.Salvage):
		return 21
	case has(replay.DurableWithoutSave), has(replay.IDsKept):
		return 6
	case has(replay.UnknownEventsKept):
		return 8
	case has(replay.StoredSequenceCounter) && has(replay.CancelledIsFinal):
		return 2
	case has(replay.StoredSequenceCounter), has(replay.EventCountKeepsLarger):
		return 3
	case has(replay.CancelledIsFinal):
		return 4
	}
	return 2
}

// known are the members that the original has; it drops others.
var known = strings.Fields("id session_id status prompt created_at_ms updated_at_ms result_text error " +
	"event_count sequence timestamp_ms event " +
	"snapshot events")

// answered shows what the clock made as times, and records and events as the original holds them.
func answered(value any) any {
	decoded, err := replay.Decode(encode(value))
	if err != nil {
		panic(err)
	}
	return shown("", decoded)
}

func encode(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

func shown(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for member, inner := range v {
			if member == "event" {
				if event, known, err := replay.LiveEvent(inner); err == nil && known {
					inner = event
				}
				out[member] = inner
				continue
			}
			out[member] = shown(member, inner)
		}
		_, isSnapshot := v["created_at_ms"]
		_, isRecord := v["timestamp_ms"]
		if isSnapshot || isRecord {
			maps.DeleteFunc(out, func(member string, _ any) bool { return !slices.Contains(known, member) })
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = shown("", v[i])
		}
		return out
	case json.Number:
		ms, err := v.Int64()
		if strings.HasSuffix(name, "_ms") && err == nil && ms >= clockBase.UnixMilli() &&
			ms < clockBase.AddDate(1, 0, 0).UnixMilli() {
			return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)
		}
	}
	return value
}

func ok(value any) replay.Answer { return replay.Answer{Outcome: replay.Outcome{OK: answered(value)}} }

func result[T any](value T, err error) replay.Answer {
	if err != nil {
		return replay.Answer{Outcome: replay.Fails(err, "")}
	}
	return ok(value)
}

func found[T any](value T, there bool, err error) replay.Answer {
	if err == nil && !there {
		return ok(nil)
	}
	return result(value, err)
}

func (p *player) call(c *replay.Call) replay.Answer {
	ctx, run := context.Background(), c.Text("run_id")
	switch c.Op {
	case "create_run":
		return result(p.store.CreateRun(ctx, c.Text("session_id"), c.Text("prompt")))
	case "record_event":
		event, err := live.NewEvent(c.Raw("event"))
		if !c.Has("event") {
			event, err = live.NewEvent([]byte("null"))
		}
		if err != nil {
			return result(0, err)
		}
		return found(p.store.RecordEvent(ctx, run, event))
	case "mark_failed":
		return found(p.store.MarkFailed(ctx, run, c.Text("error")))
	case "mark_cancelled":
		return found(p.store.MarkCancelled(ctx, run))
	case "snapshot":
		return found(p.store.Snapshot(ctx, run))
	case "events":
		return list(p.store.Events(ctx, run))
	case "list":
		runs, err := p.store.List(ctx)
		if p.off != nil { // the later API answers in the order of insertion
			slices.SortStableFunc(runs, func(a, b live.RunSnapshot) int { return tie(a, b) })
		}
		return list(runs, err)
	case "records":
		records, err := p.records()
		if c.Has("as") {
			p.kept[c.Text("as")] = records
		}
		answer := list(records, err)
		answer.Bound = c.Text("as")
		return answer
	case "replace_records":
		return p.replace(c)
	case "concurrent_record":
		return p.concurrentRecord(c)
	case "mark_time":
		snapshot, _, err := p.store.Snapshot(ctx, run)
		p.marked[run] = snapshot.UpdatedAtMs
		return result[any](nil, err)
	case "time_moved":
		snapshot, _, err := p.store.Snapshot(ctx, run)
		return result(snapshot.UpdatedAtMs > p.marked[run], err)
	}
	if strings.HasPrefix(c.Op, "handle_") || strings.HasPrefix(c.Op, "set_") || c.Op == "token_cancelled" ||
		c.Op == "hook_calls" {
		return p.handle(c)
	}
	if p.off == nil {
		return p.later(c)
	}
	return p.files(c)
}

func list[T any](items []T, err error) replay.Answer {
	if items == nil {
		items = []T{}
	}
	return result(items, err)
}

func tie(a, b live.RunSnapshot) int {
	if a.CreatedAtMs != b.CreatedAtMs {
		return 0
	}
	return strings.Compare(a.ID, b.ID)
}

func (p *player) records() ([]live.RunRecord, error) {
	records, err := p.store.Records(context.Background())
	if p.off != nil {
		slices.SortStableFunc(records, func(a, b live.RunRecord) int { return tie(a.Snapshot, b.Snapshot) })
	}
	return records, err
}

func (p *player) replace(c *replay.Call) replay.Answer {
	records, known := p.kept[c.Text("records")]
	if !known {
		if err := c.Unmarshal("records", &records); err != nil {
			return result[any](nil, err)
		}
	}
	return result[any](nil, p.store.ReplaceRecords(context.Background(), records))
}

func (p *player) concurrentRecord(c *replay.Call) replay.Answer {
	var tasks, each int
	if err := c.Unmarshal("tasks", &tasks); err != nil {
		p.t.Fatal(err)
	}
	if err := c.Unmarshal("each", &each); err != nil {
		p.t.Fatal(err)
	}
	run, counts := c.Text("run_id"), make([][]uint64, tasks)
	var wg sync.WaitGroup
	for task := range tasks {
		wg.Go(func() {
			for i := range each {
				snapshot, _, err := p.store.RecordEvent(context.Background(), run,
					live.TextDelta(fmt.Sprintf("%d:%d", task, i)))
				if err != nil {
					p.t.Error(err)
					return
				}
				counts[task] = append(counts[task], snapshot.EventCount)
			}
		})
	}
	wg.Wait()
	events, err := p.store.Events(context.Background(), run)
	if err != nil {
		p.t.Fatal(err)
	}
	snapshot, _, err := p.store.Snapshot(context.Background(), run)
	dense, ownOrder, next := true, true, make([]int, tasks)
	for i, e := range events {
		dense = dense && e.Sequence == uint64(i)
		var event struct{ Text string }
		var task, n int
		if err := json.Unmarshal(e.Event.JSON(), &event); err != nil {
			p.t.Fatal(err)
		}
		if _, err := fmt.Sscanf(event.Text, "%d:%d", &task, &n); err != nil {
			continue
		}
		ownOrder = ownOrder && n == next[task]
		next[task]++
	}
	distinct, grow := map[uint64]bool{}, true
	for _, list := range counts {
		grow = grow && slices.IsSorted(list)
		for _, n := range list {
			distinct[n] = true
		}
	}
	return result(map[string]any{
		"events": len(events), "event_count": snapshot.EventCount, "dense_sequences_in_list_order": dense,
		"each_task_in_its_own_order":               ownOrder,
		"returned_event_counts_distinct":           len(distinct) == tasks*each,
		"returned_event_counts_grow_within_a_task": grow,
	}, err)
}

func (p *player) handle(c *replay.Call) replay.Answer {
	ctx, h := context.Background(), p.handles[c.Text("handle")]
	switch c.Op {
	case "handle_new":
		p.handles[c.Text("as")] = live.NewRunHandle(c.Text("run_id"), c.Text("session_id"), p.store, p.session,
			p.hook)
		answer := ok(nil)
		answer.Bound = c.Text("as")
		return answer
	case "set_current":
		p.current = nil
		if c.Has("run_id") {
			p.current = new(c.Text("run_id"))
		}
		p.setCurrent()
		return ok(nil)
	case "set_token":
		var present bool
		err := c.Unmarshal("present", &present)
		p.token, p.stop = nil, nil
		if present {
			p.token, p.stop = context.WithCancel(context.Background())
		}
		p.setCurrent()
		return result[any](nil, err)
	case "token_cancelled":
		if p.token == nil {
			return ok(nil)
		}
		return ok(p.token.Err() != nil)
	case "hook_calls":
		calls := p.hook.calls
		p.hook.calls = []map[string]any{}
		return ok(calls)
	case "handle_id":
		return ok(h.ID())
	case "handle_session_id":
		return ok(h.SessionID())
	case "handle_snapshot":
		return found(h.Snapshot(ctx))
	case "handle_events":
		return list(h.Events(ctx))
	case "handle_status":
		return found(h.Status(ctx))
	case "handle_cancel":
		return result(h.Cancel(ctx))
	}
	return replay.Answer{Wrong: "the player doesn't know this call"}
}

// files are the calls of the session layer.
func (p *player) files(c *replay.Call) replay.Answer {
	session := c.Text("session_id")
	file := filepath.Join(p.folder, "runs", live.SafeName(session)+".json")
	document := filepath.Join(p.folder, live.SafeName(session)+".json")
	switch c.Op {
	case "save":
		records, err := p.records()
		if err != nil {
			return result[any](nil, err)
		}
		var out []byte
		var w live.FileWriter
		for _, r := range records {
			out = w.Append(out, jsonOf(r), false)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return result[any](nil, err)
		}
		return result[any](nil, os.WriteFile(file, w.End(out), 0o600))
	case "load":
		records, there, err := p.load(file)
		if err == nil && !there {
			return ok(nil)
		}
		return list(records, err)
	case "restore":
		records, there, err := p.load(file)
		if err != nil || !there {
			return result(map[string]any{"restored": nil}, err)
		}
		return result(map[string]any{"restored": len(records)},
			p.store.ReplaceRecords(context.Background(), records))
	case "reopen":
		if err := p.db.Close(); err != nil {
			return result[any](nil, err)
		}
		p.open()
		records, err := p.records()
		restored := map[string]any{"restored": len(records)}
		if len(records) == 0 { // there is nothing that tells an empty store from none
			if _, e := os.Stat(file); e != nil {
				restored["restored"] = nil
			}
		}
		return result(restored, err)
	case "save_session":
		return result[any](nil, os.WriteFile(document, []byte("{}"), 0o600))
	case "session_exists":
		_, err := os.Stat(document)
		return ok(err == nil)
	case "delete_session":
		return result[any](nil, first(removed(file), removed(document)))
	case "list_sessions":
		names, err := filepath.Glob(filepath.Join(p.folder, "*.json"))
		for i := range names {
			names[i] = strings.TrimSuffix(filepath.Base(names[i]), ".json")
		}
		return list(names, err)
	case "put_file":
		target := filepath.Join(p.folder, c.Text("path"))
		return result[any](nil, first(os.MkdirAll(filepath.Dir(target), 0o700),
			os.WriteFile(target, []byte(c.Text("text")), 0o600)))
	case "cut_file":
		var keep int64
		return result[any](nil, first(c.Unmarshal("keep_bytes", &keep),
			os.Truncate(filepath.Join(p.folder, c.Text("path")), keep)))
	case "files":
		var paths []string
		err := filepath.Walk(p.folder, func(path string, _ os.FileInfo, err error) error {
			if name, _ := filepath.Rel(p.folder, path); err == nil && name != "." {
				paths = append(paths, name)
			}
			return err
		})
		slices.Sort(paths)
		return list(paths, err)
	}
	return replay.Answer{Wrong: "the player doesn't know this call"}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// load reads what can be read of a file: its other records don't stop it. There is nothing to see
// when nothing can.
func (p *player) load(file string) (records []live.RunRecord, there bool, err error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, false, nil
	}
	elements, _ := live.ParseFile(text)
	for _, e := range elements {
		if e.Reason != "" {
			continue
		}
		var record live.RunRecord
		if err := record.UnmarshalJSON(e.Text); err != nil {
			return nil, true, err
		}
		records = append(records, record)
	}
	return records, true, err
}

// setCurrent makes of the original's two cells one call: without a current run nothing is cancelled.
func (p *player) setCurrent() {
	if p.current == nil {
		p.session.SetCurrent("", nil)
	} else {
		p.session.SetCurrent(*p.current, p.stop)
	}
}

// later are the calls that later versions added.
func (p *player) later(c *replay.Call) replay.Answer {
	ctx := context.Background()
	reserve := func(prompt string) (live.Reservation, error) {
		return p.store.ReserveRunWithID(ctx, c.Text("id"), c.Text("session_id"), prompt)
	}
	switch c.Op {
	case "new_store":
		caps := map[string]**uint64{
			"max_runs": &p.caps.MaxRuns, "max_events_per_run": &p.caps.MaxEventsPerRun,
			"max_event_bytes_per_run": &p.caps.MaxEventBytesPerRun,
		}
		for _, name := range slices.Sorted(maps.Keys(caps)) {
			if c.Has(name) {
				var n uint64
				if err := c.Unmarshal(name, &n); err != nil {
					return result[any](nil, err)
				}
				*caps[name] = &n
			}
		}
		p.store = live.NewStore(p.db, p.caps)
		return ok(nil)
	case "create_run_with_id":
		return result(p.store.CreateRunWithID(ctx, c.Text("id"), c.Text("session_id"), c.Text("prompt")))
	case "reserve_run_with_id":
		r, err := reserve(c.Text("prompt"))
		return result(map[string]any{"reservation": map[bool]string{
			true:  "existing",
			false: "created",
		}[r.Existing], "replayed": r.Existing, "snapshot": r.Snapshot}, err)
	case "concurrent_reserve":
		var tasks int
		if err := c.Unmarshal("tasks", &tasks); err != nil {
			return result[any](nil, err)
		}
		answers := make([]live.Reservation, tasks)
		var wg sync.WaitGroup
		for i := range tasks {
			wg.Go(func() {
				var err error
				if answers[i], err = reserve(fmt.Sprint("prompt ", i)); err != nil {
					p.t.Error(err)
				}
			})
		}
		wg.Wait()
		prompts, created := map[string]bool{}, 0
		for _, r := range answers {
			prompts[r.Snapshot.Prompt] = true
			if !r.Existing {
				created++
			}
		}
		return ok(map[string]any{
			"created": created, "existing": tasks - created,
			"distinct_prompts_answered": len(prompts),
		})
	case "event_page":
		var after *uint64
		var limit int
		if err := first(c.Unmarshal("after_sequence", &after), c.Unmarshal("limit", &limit)); err != nil {
			return result[any](nil, err)
		}
		page, there, err := p.store.EventPage(ctx, c.Text("run_id"), after, limit)
		events := page.Events
		if events == nil {
			events = []live.RunEventRecord{}
		}
		return found(map[string]any{
			"events": events, "first_available_sequence": page.FirstAvailableSequence,
			"latest_sequence_exclusive": page.LatestSequenceExclusive,
			"next_after_sequence":       page.NextAfterSequence, "retention_gap": page.RetentionGap,
			"has_more": page.HasMore,
		}, there, err)
	}
	return replay.Answer{Wrong: "the player doesn't know this call"}
}
