package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

func TestPrune_LimitsDoNotAddUp(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	ended := []stores.Ended{
		{Key: 5, ID: "kept", Of: "a", Bytes: 10},
		{Key: 4, ID: "counted out", Of: "a", Bytes: 100},
		{Key: 3, ID: "of another", Of: "b", Bytes: 10},
		{Key: 2, ID: "held", Of: "b", Bytes: 20, Held: true},
		{Key: 1, ID: "too much", Of: "c", Bytes: 11},
	}
	var gone []string
	_, err := stores.Prune(t.Context(), d, stores.Pruning{
		Op: "prune", Store: maintenance.StoreLive,
		Ended: func(*db.Rx, int64, stores.Ended, int) ([]stores.Ended, error) { return slices.Clone(ended), nil },
	}, db.Policy{Count: 1, Bytes: 50, DryRun: true, Each: func(g db.Gone) { gone = append(gone, g.ID) }})
	if want := []string{"too much", "counted out"}; err != nil || !slices.Equal(gone, want) {
		t.Errorf("%q would go, not %q; %v", gone, want, err)
	}
	if bytes := d.Work().PrunedBytes; bytes != 0 {
		t.Errorf("a dry run pruned %d bytes", bytes)
	}
}

func TestACursorOfPinsBelongsToItsScope(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	err := d.Write(t.Context(), "pin", func(tx *db.Tx) error {
		for i := range 3 {
			for _, scope := range []string{"", "other"} {
				if err := tx.Store().Pin(scope, txn.Pinned{Store: maintenance.StoreLive, ID: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := maintenance.Pins(t.Context(), d, "", db.At{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Next == "" {
		t.Fatalf("it gave %+v, %v", page, err)
	}
	rest, err := maintenance.Pins(t.Context(), d, "", db.At{After: page.Next})
	if err != nil || len(rest.Items) != 1 || rest.Next != "" {
		t.Errorf("behind it lies %+v, %v", rest, err)
	}
	for _, scope := range []string{"other", "none"} {
		_, err := maintenance.Pins(t.Context(), d, scope, db.At{After: page.Next})
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("in %s it gave %v", scope, err)
		}
	}
}

func TestWorkCountsWhatWasCommitted(t *testing.T) {
	var shared []int
	for _, path := range []string{dbtest.Path(t), ":memory:"} {
		d := dbtest.OpenAt(t, path, db.Options{Observe: func(o db.Observation) {
			if o.Why == "fails" || o.Why == "count" {
				shared = append(shared, o.Group)
			}
		}})
		write(t, d, numbers)
		before := d.Work().Writes
		write(t, d, "INSERT INTO numbers (name, n) VALUES ('one', 1)")
		_ = d.Write(context.Background(), "fails", func(*db.Tx) error { return errors.New("no") })
		count(t, d, "true")
		if n := d.Work().Writes - before; n != 1 {
			t.Errorf("%s: one write is counted as %d", path, n)
		}
	}
	if slices.Max(shared) > 0 {
		t.Errorf("calls that committed nothing are said to share a commit: %v", shared)
	}
}
