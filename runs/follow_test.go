package runs_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// storeAt opens a file that other handles may have open too.
func storeAt(t *testing.T, path string) *runs.Store {
	t.Helper()
	return runs.NewStore(dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal}), runs.Options{})
}

// records leaves out what is no record.
func records(items iter.Seq2[runs.Followed, error]) iter.Seq2[runs.Followed, error] {
	return func(yield func(runs.Followed, error) bool) {
		for item, err := range items {
			if (err != nil || item.What == db.Written) && !yield(item, err) {
				return
			}
		}
	}
}

// lastErrorOf runs a loop to its end, which is an error.
func lastErrorOf(t *testing.T, s *runs.Store, ref runs.RunRef, cursor string) error {
	t.Helper()
	var last error
	for _, err := range s.Follow(t.Context(), ref, cursor) {
		last = err
	}
	return last
}

func TestFollowDeliversWhatIsThereAndWhatComes(t *testing.T) {
	path := dbtest.Path(t)
	reader, writer := storeAt(t, path), storeAt(t, path)
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	must(t, writer.WriteStarted(t.Context(), started("r", "a", start)))
	var turns []runs.Turn
	for i := range 300 { // more than are read at a time
		turns = append(turns, turn(uint64(i), "p"))
	}
	must(t, writer.AppendTurns(t.Context(), "a", "r", turns))
	want, cursor := int64(1), ""
	for r, err := range records(reader.Follow(t.Context(), ref, "")) {
		must(t, err)
		if r.Item.Sequence != want || r.Of != ref {
			t.Fatalf("record %d of %v came where %d of %v should", r.Item.Sequence, r.Of, want, ref)
		}
		if got, is := r.Item.Record.(runs.Turn); is && got.Index != uint64(want-2) {
			t.Fatalf("record %d is turn %d", r.Item.Sequence, got.Index)
		}
		if read, err := runs.DecodeSeed(r.Item.Line); err != nil ||
			read.RecordKind() != r.Item.Record.RecordKind() {
			t.Fatalf("line %d is %q", r.Item.Sequence, r.Item.Line)
		}
		if want == 100 {
			cursor = r.Cursor
		}
		if want == 305 {
			break
		}
		if want++; want > 301 { // it has all that is there: one more
			must(t, writer.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(uint64(want-2), "late")}))
		}
	}
	next := int64(101)
	for r, err := range records(reader.Follow(t.Context(), ref, cursor)) {
		must(t, err)
		if r.Item.Sequence != next {
			t.Fatalf("record %d came where %d should", r.Item.Sequence, next)
		}
		if next++; next > 305 {
			page, err := reader.TracePage(t.Context(), ref, db.At{After: r.Cursor})
			must(t, err)
			if len(page.Items) != 0 {
				t.Errorf("behind the last record there are %d", len(page.Items))
			}
			break
		}
	}
}

func TestFollow_PassesEndAndUnknownLines(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	must(t, handle(s).Write(t.Context(), "import", func(tx *db.Tx) error {
		return s.ImportLines(tx, ref, "garbage\n\n")
	}))
	must(t, s.AppendRecords(t.Context(), "a", "r",
		[]runs.Record{
			started("r", "a", start), laterRecord("model_turn"),
			ended("r", "a", runs.OutcomeSuccess, start),
		}))
	var got []string
	for r, err := range records(s.Follow(t.Context(), ref, "")) {
		must(t, err)
		got = append(got, fmt.Sprint(r.Item.Sequence, " ", r.Item.Record.RecordKind()))
		if r.Item.Sequence == 5 {
			must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(0, "late")}))
		}
		if r.Item.Sequence == 6 {
			break
		}
	}
	if want := []string{"3 started", "4 model_turn", "5 ended", "6 turn"}; !slices.Equal(got, want) {
		t.Errorf("it delivered %q, not %q", got, want)
	}
}

// A follower has every turn that a killed process had acknowledged, in order, and what the next
// process writes.
func TestFollowSurvivesItsWriters(t *testing.T) {
	path := dbtest.Path(t)
	s := storeAt(t, path)
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	must(t, second(s.Append(t.Context(), runs.Batch{
		AgentID: "a", RunID: "r",
		Records: []runs.Record{laterRecord("first")},
	})))
	p, round := dbtest.Start(t, "appender", path, "r"), 0
	sequence, index := int64(0), uint64(0)
	for r, err := range records(s.Follow(t.Context(), ref, "")) {
		must(t, err)
		if sequence++; r.Item.Sequence != sequence {
			t.Fatalf("record %d came where %d should", r.Item.Sequence, sequence)
		}
		got, is := r.Item.Record.(runs.Turn)
		if !is {
			index = 0 // a process begins
			continue
		}
		if got.Index != index {
			t.Fatalf("turn %d came where %d should", got.Index, index)
		}
		if index++; index == 60 {
			p.Signal(syscall.SIGKILL)
			p.Kill()
			if round++; round == 3 {
				break
			}
			p = dbtest.Start(t, "appender", path, "r")
		}
	}
}

func TestFollowSaysThatItsRunIsGone(t *testing.T) {
	s, _ := openStore(t, runs.Options{Retention: &runs.RetentionConfig{MaxAgeDays: 30}})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	whole := []runs.Record{started("r", "a", start), ended("r", "a", runs.OutcomeSuccess, start)}
	must(t, s.AppendRecords(t.Context(), "a", "r", whole))
	var cursor string
	var last error
	for r, err := range s.Follow(t.Context(), ref, "") {
		if err == nil && r.Item.Sequence == 2 {
			cursor = r.Cursor
			removed, err := s.GC(t.Context())
			must(t, err)
			if removed != 1 {
				t.Fatalf("%d runs were removed", removed)
			}
		}
		last = err
	}
	if !errors.Is(last, db.ErrCursorExpired) || db.Hint(last) == "" {
		t.Errorf("after retention it ended with %v", last)
	}
	var named *db.Error
	if err := lastErrorOf(t, s, ref, ""); !errors.Is(err, db.ErrNotFound) || !errors.As(err, &named) ||
		named.Entity != "run" || named.ID != "r" {
		t.Errorf("of a run that is not there: %v", err)
	}
	must(t, s.AppendRecords(t.Context(), "a", "r", whole))
	if err := lastErrorOf(t, s, ref, cursor); !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("a new run of the same name: %v", err)
	}
	must(t, s.AppendRecords(t.Context(), "a", "other", whole))
	other, err := s.CursorBefore(t.Context(), runs.RunRef{AgentID: "a", RunID: "other"}, 1)
	must(t, err)
	for _, bad := range []string{other, "x", strings.Repeat("A", 40)} {
		if err := lastErrorOf(t, s, ref, bad); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("with cursor %q: %v", bad, err)
		}
	}
}

func TestFollow_EndsWithContextAndFile(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	s := runs.NewStore(d, runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	for _, err := range s.Follow(ctx, runs.RunRef{AgentID: "a", RunID: "r"}, "") {
		if cancel(why); err != nil && !errors.Is(err, why) {
			t.Errorf("its context ended, and it said %v", err)
		}
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	all := s.FollowAll(ctx, runs.Filter{})
	cancel(why)
	for _, err := range all {
		if !errors.Is(err, why) {
			t.Errorf("following all ended with %v", err)
		}
	}
	all = s.FollowAll(t.Context(), runs.Filter{})
	for _, err := range s.Follow(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}, "") {
		if err == nil {
			must(t, d.Close())
		} else if !errors.Is(err, db.ErrClosed) {
			t.Errorf("its file was closed, and it said %v", err)
		}
	}
	for _, err := range all {
		if !errors.Is(err, db.ErrClosed) {
			t.Errorf("following all ended with %v", err)
		}
	}
}

func TestACursorBeforeTheLastLines(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(0, "p"), turn(1, "p"), turn(2, "p")}))
	for _, lines := range []int64{0, 1, 2, 3, 4, 1 << 40} {
		cursor, err := s.CursorBefore(t.Context(), ref, lines)
		must(t, err)
		page, err := s.TracePage(t.Context(), ref, db.At{After: cursor})
		must(t, err)
		if len(page.Items) != int(min(lines, 3)) {
			t.Errorf("behind the cursor before the last %d lines there are %d records", lines, len(page.Items))
		}
	}
	if _, err := s.CursorBefore(t.Context(), ref, -1); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("-1 lines: %v", err)
	}
	if _, err := s.CursorBefore(t.Context(), runs.RunRef{RunID: "none"}, 1); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
}

func TestTrace_EndIsFoundBehindStrayLines(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	importTrace(t, d, s, ref, `{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2026-01-01T00:00:00Z"}
{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},"ended_at":"2026-01-01T00:00:01Z"}
torn
`)
	end, err := s.CursorBefore(t.Context(), ref, 0)
	must(t, err)
	for f, err := range s.Follow(t.Context(), ref, "") {
		must(t, err)
		if f.What == db.StatusChanged {
			if f.Cursor != end {
				t.Error("the last cursor is not that of the end")
			}
			break
		}
	}
}
