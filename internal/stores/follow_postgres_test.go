//go:build postgres

package stores_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/state"
	"selvedge/test/dbtest"
)

// The server falls silent before the first one follows. Who waits for it ends with its own context,
// and so does who comes behind: not with the patience that a call has with a server, by which the
// last try of three is judged.
func TestPostgres_FollowOfSilentServerEndsWithContext(t *testing.T) {
	for range 3 {
		if endsWithItsContext(t) {
			return
		}
	}
	t.Error("it ended when the server was given up")
}

func endsWithItsContext(t *testing.T) bool {
	gate := dbtest.NewPostgresGate(t, dbtest.Postgres(t))
	d, other := dbtest.OpenAt(t, gate.Address, db.Options{}), dbtest.OpenAt(t, gate.Address, db.Options{})
	gate.Shut()
	defer gate.Open() // before they are closed
	given := make(chan struct{})
	go func() {
		_, _ = other.Changes(context.WithoutCancel(t.Context())) // how it ends tells nothing here
		close(given)
	}()
	dbtest.Receive(t, "who asks the silent server", gate.Held)
	follow := func() (end context.CancelFunc, ended <-chan error) {
		ctx, end := context.WithCancel(t.Context())
		said := make(chan error, 1)
		go func() {
			for _, err := range listen(ctx, d, 1, "") {
				said <- err
			}
		}()
		return end, said
	}
	endFirst, first := follow()
	dbtest.Receive(t, "who follows on it", gate.Held)
	endSecond, second := follow()
	_ = d.Work() // which counts those who follow
	endSecond()
	if err := dbtest.Receive(t, "the end of the second", second); !errors.Is(err, context.Canceled) {
		t.Errorf("the second ended with %v", err)
	}
	endFirst()
	if err := dbtest.Receive(t, "the end of the first", first); !errors.Is(err, context.Canceled) {
		t.Errorf("the first ended with %v", err)
	}
	select {
	case <-given:
		return false
	default:
		gate.Open()
		<-given
		return true
	}
}

// Commits of two handles, each in its own transactions, are told by the rows that they touched: only the
// look once a second, at whatever else was committed, is one at all.
func TestPostgres_FollowAllPollsWhatWasTouched(t *testing.T) {
	address := dbtest.Postgres(t)
	d, other := dbtest.OpenAt(t, address, db.Options{}), dbtest.OpenAt(t, address, db.Options{})
	must(t, set(d, "first", 2000))
	told, wide := listenValues(t, d)
	wide.Store(0)
	began := time.Now()
	for i := range 50 {
		must(t, set(other, "other", 1))
		told.Hears(fmt.Sprint("other 0: ", i+1))
		must(t, set(d, "own", 1))
		told.Hears(fmt.Sprint("own 0: ", i+1))
	}
	must(t, state.NewStore(other, state.Options{}).Delete(t.Context(), state.Ref{Key: "own 0"}))
	told.Hears("own 0 gone")
	const page = 3 // reads of one look
	if most := int64(time.Since(began)/time.Second+2) * page; wide.Load() > most {
		t.Errorf("it looked at all in %d reads, of %d at most", wide.Load(), most)
	}
}
