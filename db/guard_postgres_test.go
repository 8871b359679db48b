//go:build postgres

package db_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// The call that waits goes on to its end, whatever whoever is told of it does.
func TestPostgresWithWaits_FailureIsTheCallsError(t *testing.T) {
	address := dbtest.Postgres(t)
	d, other := dbtest.OpenAt(t, address, db.Options{}), dbtest.OpenAt(t, address, db.Options{})
	lease, err := d.Reserve(t.Context(), "port", "1", db.ReserveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	release := func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE leases SET note = 'said' WHERE epoch = ?`, lease.Epoch())
		return err
	}
	for name, throws := range map[string]func(){
		"panic": func() { panic("teller") }, "Goexit": runtime.Goexit,
		"call": nil,
	} {
		held, told, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			over <- other.Write(context.WithoutCancel(t.Context()), "hold", func(tx *db.Tx) error {
				if err := release(tx); err != nil {
					return err
				}
				close(held)
				<-told
				return nil
			})
		}()
		<-held
		var inner error
		ctx := db.WithWaits(t.Context(), func([]db.ServerSession) {
			defer close(told)
			if throws != nil {
				throws()
			}
			inner = d.Write(context.Background(), "inside", func(*db.Tx) error { return nil })
		})
		err := d.WriteLocked(ctx, "wait", release)
		if failed := <-over; failed != nil {
			t.Fatal(failed)
		}
		switch name {
		case "panic":
			wantsPanic(t, "a write that waits", err, "teller")
		case "Goexit":
			if err == nil {
				t.Error("the function left by Goexit, and nobody is told")
			}
		case "call":
			if err != nil || !errors.Is(inner, db.ErrInvalid) {
				t.Errorf("%v; a write inside gave %v", err, inner)
			}
		}
	}
}
