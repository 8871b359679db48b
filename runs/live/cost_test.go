package live_test

import (
	"testing"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// What a call does not need it does not read, however much of it there is: where it has been
// changed by hand, the call goes by what it should have been.
func TestACapOnRunsDoesNotCountThem(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{MaxRuns: new(uint64(3))})
	create(t, store, "oldest")
	changeBy(t, d, `UPDATE live_scopes SET runs = 3`) // and not the one that there is
	create(t, store, "next")
	if list, err := store.List(t.Context()); err != nil || len(list) != 1 || list[0].Prompt != "next" {
		t.Errorf("there are %v: %v", list, err)
	}
	changeBy(t, d, `UPDATE live_scopes SET runs = 1`)
}

func TestAppend_ReadsNoTexts(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{})
	run := create(t, store, "a prompt of megabytes")
	changeBy(t, d, `CREATE TABLE words AS SELECT * FROM live_texts`, `DELETE FROM live_texts`)
	if _, err := store.Append(t.Context(), run.ID,
		live.Batch{Events: []live.Event{live.TextDelta("hello")}}); err != nil {
		t.Error(err)
	}
	changeBy(t, d, `INSERT INTO live_texts SELECT * FROM words`, `DROP TABLE words`)
	if got, err := store.Get(t.Context(), run.ID); err != nil || got.EventCount != 1 ||
		got.Prompt != "a prompt of megabytes" {
		t.Errorf("the run is %+v: %v", got, err)
	}
}

// changeBy changes the file as nobody should.
func changeBy(t testing.TB, d *db.DB, statements ...string) {
	t.Helper()
	err := d.Write(t.Context(), "change by hand", func(tx *db.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
