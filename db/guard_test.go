package db_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/machine"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// wantsPanic wants an error to be that of a function that panicked with a text.
func wantsPanic(t *testing.T, what string, err error, text string) {
	t.Helper()
	p, is := errors.AsType[*db.Panic](err)
	if !is || p.Value != text {
		t.Errorf("%s: %v, not the panic", what, err)
	}
}

func TestObserve_PanicIsItsCallersError(t *testing.T) {
	panics := ""
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if o.Why == panics {
			panic("observer")
		}
	}})
	write(t, d, numbers)
	panics = "add"
	wantsPanic(t, "a write", d.Write(t.Context(), "add", func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO numbers (id, name, n) VALUES (1, 'one', 1)")
		return err
	}), "observer")
	if n := count(t, d, "id = 1"); n != 1 {
		t.Errorf("what the write did is there %d times", n)
	}
	lease, err := d.Reserve(t.Context(), "port", "1", db.ReserveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	panics = "renew reservation"
	kept, stop := lease.Keep(t.Context())
	defer stop()
	select {
	case <-kept.Done():
		wantsPanic(t, "a renewal by Keep", context.Cause(kept), "observer")
	case <-time.After(2 * time.Minute):
		t.Error("Keep goes on")
	}
}

func TestClock_PanicEndsKeep(t *testing.T) {
	broken := false
	d := dbtest.Open(t, db.Options{BootTime: func() db.BootTime {
		if broken {
			panic("clock")
		}
		return machine.ReadBootTime()
	}})
	lease, err := d.Reserve(t.Context(), "port", "1",
		db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	broken = true
	kept, stop := lease.Keep(t.Context())
	defer stop()
	select {
	case <-kept.Done():
		wantsPanic(t, "Keep", context.Cause(kept), "clock")
	case <-time.After(2 * time.Minute):
		t.Error("Keep goes on")
	}
}

func TestProgress_FailureIsTheCallsError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	d := dbtest.OpenAt(t, path, db.Options{})
	write(t, d, numbers)
	fill(t, d, 1)
	calls := map[string]func(context.Context) error{
		"check": func(ctx context.Context) error { _, err := d.Check(ctx); return err },
		"scrub": func(ctx context.Context) error { return maintenance.Scrub(ctx, d) },
	}
	for name, call := range calls {
		wantsPanic(t, name, call(db.WithProgress(t.Context(), func(db.Progress) { panic("teller") })), "teller")
		if err := call(db.WithProgress(t.Context(), func(db.Progress) { runtime.Goexit() })); err == nil {
			t.Errorf("%s: the function left by Goexit, and nobody is told", name)
		}
		var inner error
		if err := call(db.WithProgress(t.Context(), func(db.Progress) {
			inner = d.Write(context.Background(), "inside", func(*db.Tx) error { return nil })
		})); err != nil || !errors.Is(inner, db.ErrInvalid) {
			t.Errorf("%s: %v; a write inside gave %v", name, err, inner)
		}
	}
	copied := filepath.Join(dir, "copy.db")
	wantsPanic(t, "backup", d.Backup(db.WithProgress(t.Context(), func(db.Progress) { panic("teller") }),
		copied), "teller")
	dbtest.Check(t, copied) // what the call did stays done
}

func TestObserve_CallBackIsRefused(t *testing.T) {
	var d *db.DB
	var inner error
	d = dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if o.Why == "outer" {
			inner = d.Write(context.Background(), "inner", func(*db.Tx) error { return nil })
		}
	}})
	if err := d.Write(t.Context(), "outer", func(*db.Tx) error { return nil }); err != nil ||
		!errors.Is(inner, db.ErrInvalid) {
		t.Errorf("%v; a call inside gave %v", err, inner)
	}
}

func TestKeep_FailingNameIsItsEnd(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	for name, fails := range map[string]func(){"panic": func() { panic("named") }, "Goexit": runtime.Goexit} {
		h := leased(t, d, 1, db.Leased{Named: func(_ string, err error) error { fails(); return err }})
		ctx, stop := h.Keep(t.Context())
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, db.ErrLeaseLost) ||
			!strings.Contains(err.Error(), "Leased.Named") {
			t.Errorf("%s: %v", name, err)
		}
		stop()
	}
}

func TestMove_PanicOfTheClockIsRaised(t *testing.T) {
	from := dbtest.Path(t)
	write(t, dbtest.OpenAt(t, from, db.Options{}), numbers)
	to := filepath.Join(t.TempDir(), "to.db")
	func() {
		defer func() {
			if v := recover(); v != "clock" {
				t.Errorf("it panicked with %v", v)
			}
		}()
		_, err := maintenance.Move(t.Context(), from, to, db.Options{Now: func() time.Time { panic("clock") }})
		t.Errorf("it returned %v", err)
	}()
}
