package live

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"selvedge/db"
	"selvedge/internal/live"
)

// A Store keeps the live runs of one scope. Its methods are safe for concurrent use, by many processes too.
type Store struct {
	db    *db.DB
	scope string
	caps  caps
}

// Options are the choices of NewStore. The zero value is the default: no caps.
type Options struct {
	// Scope is the name of the scope: what ids are unique in, and what the whole-store calls are about. "" is the default scope.
	Scope string
	// MaxRuns bounds the runs of the scope. When a run is added, those added first go, whatever their status.
	MaxRuns Cap
	// MaxEventsPerRun bounds the events kept of a run, and MaxEventBytesPerRun the bytes of their records as compact JSON.
	// When an event is added, the oldest go until both hold. An event larger than the bytes goes at once: status, count
	// and sequence move on all the same.
	//
	// One call takes at most 4,000 events out, so that none holds the writer for long: where a cap is far below what is kept,
	// several calls bring it there.
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

// full reports whether a run keeps more than the caps allow.
func (c *caps) full(events, bytes int64) bool {
	return c.events.over(events) > 0 || c.bytes.over(bytes) > 0
}

// kept leaves those records out that a cap on runs would take at once.
func (c *caps) kept(list []*RunRecord) []*RunRecord {
	if over := c.runs.over(int64(len(list))); over > 0 {
		return list[over:]
	}
	return list
}

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
	if err := s.shrink(ctx, why, id); err != nil {
		return RunSnapshot{}, err
	}
	err = s.write(ctx, why, id, func(tx *db.Tx, scope int64) error {
		if run, err = newRun(tx, id, sessionID, prompt); err != nil {
			return err
		}
		there, found, err := live.FindRow(&tx.Rx, scope, id)
		if err == nil && found {
			err = there.Remove(tx)
		}
		if err != nil {
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
		r.Existing, r.Snapshot, err = s.snapshot(&tx.Rx, scope, id)
		if err != nil || r.Existing {
			return err
		}
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

func (s *Store) snapshot(rx *db.Rx, scope int64, runID string) (found bool, run RunSnapshot, err error) {
	row, found, err := live.FindRow(rx, scope, runID)
	if err != nil || !found {
		return false, RunSnapshot{}, err
	}
	whole, err := row.Whole(rx)
	if err != nil {
		return false, RunSnapshot{}, err
	}
	return true, snapshotOf(whole.Snapshot()), nil
}

func newRun(tx *db.Tx, id, sessionID, prompt string) (RunSnapshot, error) {
	if err := errors.Join(db.CheckID("session", sessionID), live.CheckText("prompt", prompt)); err != nil {
		return RunSnapshot{}, err
	}
	now := nowMillis(&tx.Rx)
	return RunSnapshot{ID: id, SessionID: sessionID, Status: Created, Prompt: prompt, CreatedAtMs: now, UpdatedAtMs: now}, nil
}

// nowMillis is the transaction's time in Unix milliseconds; 0 before 1970.
func nowMillis(rx *db.Rx) uint64 { return uint64(max(0, rx.Now().UnixMilli())) }

// add writes a run that is not there, with its events, and holds the caps.
func (s *Store) add(tx *db.Tx, scope int64, r *RunRecord) error {
	if s.caps.runs.set && s.caps.runs.limit == 0 {
		return nil // it would go at once
	}
	stored := r.stored()
	row, err := live.AddRun(tx, scope, &stored)
	if err != nil {
		return err
	}
	gone, err := row.Trim(tx, trimmed, s.caps.full)
	if err == nil && gone > 0 {
		err = row.Move(tx)
	}
	if err != nil || !s.caps.runs.set {
		return err
	}
	return s.dropOldest(tx, scope)
}

// trimmed is how many events one transaction takes out: less than 50 ms of the writer's time.
const trimmed = 4000

// dropOldest holds the cap on runs: those added first go first. What is left to do when a transaction has taken its share
// of events out is left to the next.
func (s *Store) dropOldest(tx *db.Tx, scope int64) error {
	counts, err := live.CountsOf(&tx.Rx, scope)
	if err != nil {
		return err
	}
	share := int64(trimmed)
	for over := s.caps.runs.over(counts.Runs); over > 0 && share > 0; over-- {
		row, found, err := live.OldestRun(tx, scope, counts)
		if err != nil || !found {
			return err
		}
		left, err := remove(tx, row, share)
		if err != nil {
			return err
		}
		share = left - 1
		counts.Oldest = row.Key
	}
	return nil
}

// remove takes a run out, or where it has more events than the share the oldest of them. left is what the share has left;
// it is negative where the run is still there.
func remove(tx *db.Tx, row *live.Row, share int64) (left int64, err error) {
	if row.KeptEvents <= share {
		return share - row.KeptEvents, row.Remove(tx)
	}
	if _, err := row.Trim(tx, share, func(int64, int64) bool { return true }); err != nil {
		return 0, err
	}
	return -1, row.Move(tx)
}

// shrink takes events out of a run that is about to be removed, a share in each transaction, until it is small enough to go
// in one.
func (s *Store) shrink(ctx context.Context, why, runID string) error {
	for more := true; more; {
		err := s.read(ctx, why, runID, func(rx *db.Rx, scope int64) error {
			row, found, err := live.FindRow(rx, scope, runID)
			more = found && row.KeptEvents > trimmed
			return err
		})
		if err != nil || !more {
			return err
		}
		err = s.write(ctx, why, runID, func(tx *db.Tx, scope int64) error {
			row, found, err := live.FindRow(&tx.Rx, scope, runID)
			if err != nil || !found || row.KeptEvents <= trimmed {
				return err
			}
			_, err = remove(tx, row, trimmed)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inside runs fn in a transaction of the caller's.
func (s *Store) inside(tx *db.Tx, why, runID string, fn func(scope int64) error) error {
	if err := db.CheckID("run", runID); err != nil {
		return &db.Error{Op: why, Entity: "live run", Err: err}
	}
	scope, err := tx.Scope(s.scope)
	if err == nil {
		err = fn(scope)
	}
	return named(why, runID, err)
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
