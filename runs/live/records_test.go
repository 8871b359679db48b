package live_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs/live"
)

func TestEventsAndRecordsComeOneByOneAsInTheLists(t *testing.T) {
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
	var got []live.RunRecord
	for record, err := range s.EachRecord(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		var events []live.RunEventRecord
		for event, err := range s.EachEvent(ctx, record.Snapshot.ID) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, event)
		}
		if diff := cmp.Diff(record.Events, events, sameEvents); diff != "" {
			t.Errorf("events of %s (-record +one by one):\n%s", record.Snapshot.ID, diff)
		}
		got = append(got, record)
	}
	if diff := cmp.Diff(want, got, sameEvents); diff != "" || len(got) != 3 {
		t.Errorf("%d records (-list +one by one):\n%s", len(got), diff)
	}
}

var sameEvents = cmp.Comparer(func(a, b live.Event) bool { return string(a.JSON()) == string(b.JSON()) })
