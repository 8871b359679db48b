package db_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// Callers share commits; some fail, some have SQLite end the transaction of all, and those of the others run
// again.
func TestReserve_NoEpochComesTwice(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(d.Write(t.Context(), "test", func(tx *db.Tx) error {
		_, err := tx.Exec("CREATE TABLE one (n INTEGER PRIMARY KEY)")
		if err == nil {
			_, err = tx.Exec("INSERT INTO one VALUES (1)")
		}
		return err
	}))
	var mu sync.Mutex
	drawn := map[int64]int{}
	undone := errors.New("undone")
	var wait sync.WaitGroup
	for g := range 16 {
		wait.Go(func() {
			for i := range 20 {
				err := d.Write(t.Context(), "test", func(tx *db.Tx) error {
					l, err := d.ReserveTx(tx, "port", fmt.Sprint(g, i), db.ReserveOptions{})
					if err != nil {
						return err
					}
					mu.Lock()
					drawn[l.Epoch()]++
					mu.Unlock()
					switch (g + i) % 4 {
					case 0:
						return undone
					case 1:
						_, err = tx.Exec("INSERT OR ROLLBACK INTO one VALUES (1)")
					}
					return err
				})
				if ok := (g+i)%4 > 1; ok != (err == nil) {
					t.Errorf("%d, %d: %v", g, i, err)
				}
			}
		})
	}
	wait.Wait()
	for epoch, times := range drawn {
		if times > 1 {
			t.Errorf("epoch %d was given %d times", epoch, times)
		}
	}
}

// A process that goes on, or another one, draws behind what a handle that is closed by now had undone.
func TestReserve_UndoneEpochStaysDrawnInTheFile(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	var undone int64
	failed := errors.New("failed")
	err := d.Write(t.Context(), "test", func(tx *db.Tx) error {
		l, err := d.ReserveTx(tx, "port", "80", db.ReserveOptions{})
		if err == nil {
			undone, err = l.Epoch(), failed
		}
		return err
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := dbtest.OpenAt(t, path, db.Options{}).Reserve(t.Context(), "port", "80", db.ReserveOptions{})
	if err != nil || l.Epoch() <= undone {
		t.Errorf("behind epoch %d comes %d: %v", undone, l.Epoch(), err)
	}
}
