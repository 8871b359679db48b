package live

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"selvedge/db"
)

// A Store keeps the live runs of one scope. Its methods are safe for concurrent use, by many processes too.
type Store struct {
	db    *db.DB
	scope string
	caps  caps
}

// Options are the choices of NewStore. The zero value is the default: no caps.
type Options struct {
	// Scope is the name of the scope; what one session's memory was to the original. "" is the default scope.
	Scope string
	// MaxRuns bounds the runs of the scope. When a run is added, those added first go, whatever their status.
	MaxRuns Cap
	// MaxEventsPerRun bounds the events kept of a run, and MaxEventBytesPerRun the bytes of their records as compact JSON.
	// When an event is added, the oldest go until both hold. An event larger than the bytes goes at once: status, count
	// and sequence move on all the same.
	MaxEventsPerRun     Cap
	MaxEventBytesPerRun Cap
}

// A Cap is a largest number; the zero value is none.
type Cap struct {
	limit uint64
	set   bool
}

// AtMost is the cap n. 0 is a cap too: nothing is kept.
func AtMost(n uint64) Cap { return Cap{limit: n, set: true} }

// Limit is the cap's number; ok is false where there is no cap.
func (c Cap) Limit() (n uint64, ok bool) { return c.limit, c.set }

// over reports by how much n is more than the cap allows.
func (c Cap) over(n int64) int64 {
	if !c.set || n <= 0 || uint64(n) <= c.limit {
		return 0
	}
	return n - int64(c.limit)
}

type caps struct{ runs, events, bytes Cap }

// NewStore gives the store of a scope. Nothing is read or written; a scope comes into being with its first run.
func NewStore(d *db.DB, o Options) *Store {
	return &Store{db: d, scope: o.Scope, caps: caps{runs: o.MaxRuns, events: o.MaxEventsPerRun, bytes: o.MaxEventBytesPerRun}}
}

// Scope is the name of the store's scope.
func (s *Store) Scope() string { return s.scope }

// CreateRun adds a run under a new id, "run-" and a UUID.
func (s *Store) CreateRun(ctx context.Context, sessionID, prompt string) (RunSnapshot, error) {
	return s.create(ctx, "create live run", "run-"+uuid.NewString(), sessionID, prompt)
}

// CreateRunWithID adds a run under an id of the caller's. A run of that id that is there goes, with its events.
func (s *Store) CreateRunWithID(ctx context.Context, id, sessionID, prompt string) (RunSnapshot, error) {
	return s.create(ctx, "create live run with id", id, sessionID, prompt)
}

func (s *Store) create(ctx context.Context, why, id, sessionID, prompt string) (run RunSnapshot, err error) {
	err = s.write(ctx, why, id, func(tx *db.Tx, scope int64) error {
		if run, err = newRun(tx, id, sessionID, prompt); err != nil {
			return err
		}
		if _, err := tx.Exec(sqlDropRun, scope, id); err != nil {
			return err
		}
		return s.add(tx, scope, &RunRecord{Snapshot: run})
	})
	return run, err
}

// A Reservation is what ReserveRunWithID gives.
type Reservation struct {
	Snapshot RunSnapshot
	// Existing is true when the run was there before; the call's session and prompt were not looked at then.
	Existing bool
}

// Replayed reports whether the reservation repeats an earlier one.
func (r Reservation) Replayed() bool { return r.Existing }

// ReserveRunWithID adds a run under an id of the caller's unless there is one, so that a start can be repeated safely. Of
// callers at the same time, in any process, one adds it and all get it.
func (s *Store) ReserveRunWithID(ctx context.Context, id, sessionID, prompt string) (r Reservation, err error) {
	err = s.write(ctx, "reserve live run", id, func(tx *db.Tx, scope int64) error {
		run, found, err := findRun(&tx.Rx, scope, id)
		if err != nil {
			return err
		}
		if found {
			r.Existing, r.Snapshot = true, run.snapshot()
			return nil
		}
		r.Existing = false
		if r.Snapshot, err = newRun(tx, id, sessionID, prompt); err != nil {
			return err
		}
		return s.add(tx, scope, &RunRecord{Snapshot: r.Snapshot})
	})
	if err != nil {
		return Reservation{}, err
	}
	return r, nil
}

// Snapshot is what the run sums up to; found is false for a run that is not here.
func (s *Store) Snapshot(ctx context.Context, runID string) (run RunSnapshot, found bool, err error) {
	err = s.read(ctx, "read live run", runID, func(rx *db.Rx, scope int64) error {
		r, ok, err := findRun(rx, scope, runID)
		if ok {
			run, found = r.snapshot(), true
		}
		return err
	})
	return run, found, err
}

func newRun(tx *db.Tx, id, sessionID, prompt string) (RunSnapshot, error) {
	if err := errors.Join(db.CheckID("session", sessionID), checkText("prompt", prompt)); err != nil {
		return RunSnapshot{}, err
	}
	now := nowMillis(&tx.Rx)
	return RunSnapshot{ID: id, SessionID: sessionID, Status: Created, Prompt: prompt, CreatedAtMs: now, UpdatedAtMs: now}, nil
}

// nowMillis is the transaction's time as the original's clock gives it: 0 before 1970.
func nowMillis(rx *db.Rx) uint64 { return uint64(max(0, rx.Now().UnixMilli())) }

func checkText(what, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%w: the %s is not valid UTF-8", db.ErrInvalid, what)
	}
	return nil
}

// add writes a run that is not there, with its events, and holds the caps.
func (s *Store) add(tx *db.Tx, scope int64, r *RunRecord) error {
	if s.caps.runs.set && s.caps.runs.limit == 0 {
		return nil // it would go at once
	}
	row := newRow(r)
	if err := row.insert(tx, scope); err != nil {
		return err
	}
	for i := range r.Events {
		place := int64(i)
		if row.Places == nil {
			place = int64(r.Events[i].Sequence)
		}
		if err := row.insertEvent(tx, place, &r.Events[i]); err != nil {
			return err
		}
	}
	if err := s.caps.trim(tx, row); err != nil {
		return err
	}
	return s.dropOldest(tx, scope)
}

// dropOldest holds the cap on runs: those added first go first.
func (s *Store) dropOldest(tx *db.Tx, scope int64) error {
	if !s.caps.runs.set {
		return nil
	}
	var count int64
	if err := tx.Get(&count, sqlCountRuns, scope); err != nil {
		return err
	}
	over := s.caps.runs.over(count)
	if over == 0 {
		return nil
	}
	_, err := tx.Exec(sqlDropOldest, scope, over)
	return err
}

// write runs fn in a write transaction of the store's scope, for one run.
func (s *Store) write(ctx context.Context, why, runID string, fn func(tx *db.Tx, scope int64) error) error {
	if err := db.CheckID("run", runID); err != nil {
		return &db.Error{Op: why, Entity: "live run", Err: err}
	}
	return named(why, runID, s.db.Write(ctx, why, func(tx *db.Tx) error {
		scope, err := tx.Scope(s.scope)
		if err != nil {
			return err
		}
		return fn(tx, scope)
	}))
}

// read runs fn in a read transaction of the store's scope, for one run. A scope that was never written to has no runs: fn
// is not called.
func (s *Store) read(ctx context.Context, why, runID string, fn func(rx *db.Rx, scope int64) error) error {
	if err := db.CheckID("run", runID); err != nil {
		return &db.Error{Op: why, Entity: "live run", Err: err}
	}
	return named(why, runID, s.readScope(ctx, why, fn))
}

func (s *Store) readScope(ctx context.Context, why string, fn func(rx *db.Rx, scope int64) error) error {
	return s.db.Read(ctx, why, func(rx *db.Rx) error {
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		return fn(rx, scope)
	})
}

// named says in an error which run it is about.
func named(why, runID string, err error) error {
	var e *db.Error
	if err == nil || errors.As(err, &e) && e.Entity != "" {
		return err
	}
	if e == nil {
		return &db.Error{Op: why, Entity: "live run", ID: runID, Err: err}
	}
	about := *e
	about.Entity, about.ID = "live run", runID
	return &about
}

func decimal(n uint64) *string {
	text := strconv.FormatUint(n, 10)
	return &text
}
