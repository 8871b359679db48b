package live_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func TestEvents_StreamedOneByOne(t *testing.T) {
	ctx := t.Context()
	s := live.NewStore(dbtest.Open(t, db.Options{}), live.Options{})
	for range 3 {
		run, err := s.CreateRun(ctx, "session", "do it")
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"a", "b"} {
			if _, _, err := s.RecordEvent(ctx, run.ID, live.TextDelta(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, err := s.Records(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, record := range want {
		var events []live.RunEventRecord
		for event, err := range s.EachEvent(ctx, record.Snapshot.ID) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, event)
		}
		if diff := cmp.Diff(record.Events, events, sameEvents); diff != "" || len(events) != 2 {
			t.Errorf("events of run %d (-record +one by one):\n%s", i, diff)
		}
	}
	for _, err := range s.EachEvent(ctx, "no such run") {
		if !errors.Is(err, db.ErrNotFound) {
			t.Errorf("no such run gave %v", err)
		}
	}
}

var sameEvents = cmp.Comparer(func(a, b live.Event) bool { return string(a.JSON()) == string(b.JSON()) })
