package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/moving"
)

// Moved is the result of a move.
type Moved struct {
	moving.Report
	Stores []StoreMoved
}

// A MovedTable counts the rows of a table.
type MovedTable = moving.TableReport

// A StoreMoved sums up the tables of one store.
type StoreMoved struct {
	Store   string // as Salvaged names them: runs, live, imports, file …
	Read    int64  // rows of the source
	New     int64  // of them those that this call brought
	Already int64  // and those that an earlier one had brought
	Differs int64  // rows that are not the same in both
}

// A MoveDifference is a row that differs between source and target, or exists in one of them only.
type MoveDifference = moving.Difference

// Move copies all of one database to another: from a file to a server, back, or to another server.
// from and to are as for db.Open; of the options, AllowNetworkFS, AllowLinks, LockTimeout
// and Now apply. Afterwards both hold the same rows: ids, counters, owners, claims, the quarantine,
// and the generation, so that older cursors continue in the target.
//
// From the beginning of a move nothing else may write to from: a file must not be open anywhere,
// and a server must have no living owner (db.ErrBusy names it). From then on, db.Open for writing and
// every Write return db.ErrMoved with the target's name; reading continues. to must be empty or
// missing, and can't be opened until it is complete.
//
// A Move that was interrupted, even by a crash, continues when it is called again; AbandonMove
// undoes it. At the end every row is compared; a difference is db.ErrConflict and listed in Differs.
// Then from is marked as moved, for good, and to is opened. At no moment do both accept work.
func Move(ctx context.Context, from, to string, o db.Options) (moved Moved, err error) {
	defer func() { err = db.Heard(ctx, err) }()
	o = withClockRead(o)
	source, err := openMovable(ctx, from, o, true)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, named("move", source.Close())) }()
	gone, err := moving.Gone(ctx, source.Movable)
	if err != nil {
		return moved, named("move", err)
	}
	target, err := openMovable(ctx, to, o, gone != nil)
	if errors.Is(err, db.ErrNotFound) && gone != nil {
		return moved, named("move", gone)
	}
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, named("move", target.Close())) }()
	moved.Report, err = moving.Move(ctx, source.Movable, target.Movable, moving.Options{Now: o.Now})
	moved.Stores = byStore(moved.Tables, func(t MovedTable) string { return t.Table },
		func(s *StoreMoved, name string, t MovedTable) {
			*s = StoreMoved{name, s.Read + t.Read, s.New + t.New, s.Already + t.Already, s.Differs + t.Differs}
		})
	return moved, named("move", ended(ctx, err))
}

// Abandoned is the result of AbandonMove.
type Abandoned = moving.Abandoned

// AbandonMove undoes a Move if its target is not open yet: from accepts work again. With to, it
// also removes what was copied there. With "" it examines the target that from names and leaves its
// contents; that database can't be opened until a move from the same source to it, or AbandonMove
// with its address. A target that already accepts work is db.ErrMoved: move back instead. That is
// possible even if from is not marked as moved: a server that failed over, or a copy of the file,
// has lost the end of the move. An unreachable target is an error; AbandonMoveToLost does not check
// it. Once from is marked as moved, only AbandonMove with to releases it.
func AbandonMove(ctx context.Context, from, to string, o db.Options) (Abandoned, error) {
	return abandon(ctx, from, to, false, o)
}

// AbandonMoveToLost is AbandonMove for a target that is lost for good: it does not check the
// target. If the target accepts work after all, there are then two databases that do.
func AbandonMoveToLost(ctx context.Context, from string, o db.Options) (Abandoned, error) {
	return abandon(ctx, from, "", true, o)
}

func abandon(ctx context.Context, from, to string, lost bool, o db.Options) (a Abandoned, err error) {
	const op = "abandon the move"
	o = withClockRead(o)
	source, err := openMovable(ctx, from, o, true)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, named(op, source.Close())) }()
	sweep := to != ""
	if !sweep && !lost {
		if to, err = moving.Place(ctx, source.Movable); err != nil {
			return a, named(op, err)
		}
	}
	var target engine.Movable
	if to != "" {
		opened, failed := openMovable(ctx, to, o, true)
		switch {
		case failed == nil:
			defer func() { err = errors.Join(err, named(op, opened.Close())) }()
			target = opened.Movable
		case !sweep && errors.Is(failed, db.ErrNotFound): // then it accepts no work
		case !sweep:
			return a, &db.Error{
				Op:   op,
				Err:  fmt.Errorf("ask the target whether it takes the work: %w", failed),
				Hint: "name it with --to as it can be reached; where it is lost for good: migrate move --abandon --lost",
			}
		default:
			return a, failed
		}
	}
	a, err = moving.Abandon(ctx, source.Movable, target, sweep, moving.Options{Now: o.Now})
	return a, named(op, ended(ctx, err))
}

// withClockRead reads the user's clock once, before anything is open, and continues from there with
// the machine's clock. A failure of the user's clock inside an engine's own transaction could not
// be reported.
func withClockRead(o db.Options) db.Options {
	at := time.Now()
	now := at
	if o.Now != nil {
		now = o.Now()
	}
	o.Now = func() time.Time { return now.Add(time.Since(at)) }
	return o
}

// ended adds the cause of a context's end to an error that resulted from it.
func ended(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
}

// A movable is a database that is open for a move, as source or target.
type movable struct {
	engine.Movable
	handle *db.DB
}

// Close closes it.
func (m movable) Close() error { return m.handle.Close() }

func openMovable(ctx context.Context, path string, o db.Options, mustExist bool) (m movable, err error) {
	d, err := db.Open(engine.ForMove(ctx), path, db.Options{
		AllowNetworkFS: o.AllowNetworkFS, AllowLinks: o.AllowLinks, LockTimeout: o.LockTimeout,
		Now: o.Now, MustExist: mustExist, KeepSchema: mustExist,
	})
	if err != nil {
		return m, err
	}
	opened, ok := d.Store().Engine.(engine.Movable)
	if !ok {
		return m, errors.Join(named("move", db.ErrUnsupported), d.Close())
	}
	return movable{opened, d}, nil
}
