package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/moving"
)

// Moved is what became of a move.
type Moved struct {
	From, To string       // path of the file, or address of the server without its secrets
	Already  bool         // it was complete before the call
	Tables   []MovedTable // by name; none where it was complete before
	Rows     int64        // of all tables
	SHA256   string       // of all rows of From, in hex; docs/moving.md says of what
	ToSHA256 string       // of all rows of To
	Differs  []MoveDifference
	Left     []string // tables of From that are no part of the schema: they stay where they are
}

// A MovedTable says what became of the rows of a table.
type MovedTable struct {
	Table   string
	Read    int64 // rows of From
	New     int64 // of them those that this call brought
	Already int64 // and those that an earlier one had brought
	Differs int64 // rows that are not the same in both
}

// A MoveDifference is a row that is not the same in both, or only in one.
type MoveDifference struct {
	Table, Row, Reason string
}

// Move brings all that is in one database into another: from a file to a server, back, or to
// another server. from and to are what Open takes, and Synchronous, AllowNetworkFS, AllowLinks,
// LockTimeout and Now are what counts of the options. Both hold the same afterwards, row by row:
// ids, counters, owners, claims, what is in quarantine, and the generation, so that a cursor from
// before goes on there.
//
// From its beginning on nobody but Move writes to from: a file may be open nowhere, and on a server
// nobody may live who owns something (ErrBusy says who). Open for writing, and a Write with a
// handle of a server that was open before, are ErrMoved from then on, and say where; reading goes
// on. to must be empty, or be missing, and can't be opened before all of it is there.
//
// A Move that was stopped, however, goes on where it was when it is called again, or is undone with
// AbandonMove. At its end every row is read in both and compared; a difference is ErrConflict and
// in Differs. Then from is marked, for ever, as moved, and to is opened. There is no moment at
// which both take work.
func Move(ctx context.Context, from, to string, o Options) (moved Moved, err error) {
	defer func() { err = Heard(ctx, err) }()
	o = o.withClockRead()
	source, err := openMovable(ctx, from, o, mustExist)
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, wrap("move", source.Close())) }()
	gone, err := moving.Gone(ctx, source.Movable)
	if err != nil {
		return moved, wrap("move", err)
	}
	how := mayBeMade
	if gone != nil {
		how = mustExist
	}
	target, err := openMovable(ctx, to, o, how)
	if errors.Is(err, ErrNotFound) && gone != nil {
		return moved, wrap("move", gone)
	}
	if err != nil {
		return moved, err
	}
	defer func() { err = errors.Join(err, wrap("move", target.Close())) }()
	report, err := moving.Move(ctx, source.Movable, target.Movable, moving.Options{Now: o.Now})
	return movedOf(report), wrap("move", ended(ctx, err))
}

func movedOf(r moving.Report) Moved {
	m := Moved{From: r.From, To: r.To, Already: r.Already, Rows: r.Rows, SHA256: r.SHA256, ToSHA256: r.ToSHA256,
		Left: r.Left}
	for _, t := range r.Tables {
		m.Tables = append(m.Tables, MovedTable(t))
	}
	for _, d := range r.Differs {
		m.Differs = append(m.Differs, MoveDifference(d))
	}
	return m
}

// Abandoned is what AbandonMove did.
type Abandoned struct {
	From  string // the database that takes work again
	To    string // where its rows were under way to
	Swept bool   // what was there of them is gone
}

// AbandonMove undoes a Move of from whose target is not open yet: from takes work again. With to,
// what has come there is taken away, too. With "" the place that from names is looked at, and what
// is there stays, in a database that nobody can open, until a move from the same place to it, or
// AbandonMove with its place. A target that takes the work already is ErrMoved: go back with a move
// the other way. Even where from does not say so it may be: a server that failed over, or a copy
// that was laid in its place, has lost the end of the move. One that can't be asked is an error;
// AbandonMoveToLost does not ask. Once from is marked as moved, only with to it is given back.
func AbandonMove(ctx context.Context, from, to string, o Options) (a Abandoned, err error) {
	o = o.withClockRead()
	source, err := openMovable(ctx, from, o, mustExist)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, wrap("abandon the move", source.Close())) }()
	how := moving.SweepThere
	if to == "" {
		how = moving.LookThere
		if to, err = moving.Place(ctx, source.Movable); err != nil {
			return a, wrap("abandon the move", err)
		}
	}
	var target engine.Movable
	if to != "" {
		opened, failed := openMovable(ctx, to, o, mustExist)
		switch {
		case failed == nil:
			defer func() { err = errors.Join(err, wrap("abandon the move", opened.Close())) }()
			target = opened.Movable
		case how == moving.LookThere && errors.Is(failed, ErrNotFound): // then nothing takes the work there
		case how == moving.LookThere:
			return a, &Error{
				Op: "abandon the move", Code: code(failed), HeldBy: heldBy(failed),
				Err:  fmt.Errorf("ask the target whether it takes the work: %w", failed),
				Hint: "name it with --to as it can be reached; where it is lost for good: migrate move --abandon --lost",
			}
		default:
			return a, failed
		}
	}
	return abandon(ctx, source, target, how, o)
}

// AbandonMoveToLost is AbandonMove for a target that is lost for good: it is not asked. Whoever
// says so of one that takes the work has two that do.
func AbandonMoveToLost(ctx context.Context, from string, o Options) (a Abandoned, err error) {
	o = o.withClockRead()
	source, err := openMovable(ctx, from, o, mustExist)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, wrap("abandon the move", source.Close())) }()
	return abandon(ctx, source, nil, moving.LookThere, o)
}

// withClockRead reads the user's clock once, before anything is open; from there the time goes on
// by the machine's. What a clock does wrong inside an engine's own transactions nobody would hear.
func (o Options) withClockRead() Options {
	now, at := o.withDefaults().Now(), time.Now()
	o.Now = func() time.Time { return now.Add(time.Since(at)) }
	return o
}

func abandon(ctx context.Context, from movable, to engine.Movable, how moving.How, o Options) (Abandoned,
	error) {
	did, err := moving.Abandon(ctx, from.Movable, to, how, moving.Options{Now: o.Now})
	return Abandoned{From: did.Path, To: did.Place, Swept: did.Swept}, wrap("abandon the move", ended(ctx, err))
}

// ended puts the cause of a context's end into an error that came of it.
func ended(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
}

// How a database is opened whose rows move.
type movableOpening int

const (
	mustExist movableOpening = iota
	mayBeMade
)

// A movable is a database that is open to have its rows moved, or to have rows moved into it.
type movable struct {
	engine.Movable
	handle *DB
}

// Close closes it.
func (m movable) Close() error { return m.handle.Close() }

func openMovable(ctx context.Context, path string, o Options, how movableOpening) (m movable, err error) {
	options := Options{
		AllowNetworkFS: o.AllowNetworkFS, AllowLinks: o.AllowLinks, LockTimeout: o.LockTimeout,
		Now: o.Now, MustExist: how == mustExist, KeepSchema: how == mustExist, mover: true,
	}
	d, err := Open(ctx, path, options)
	if err != nil {
		return m, err
	}
	opened, ok := d.engine.(engine.Movable)
	if !ok {
		return m, errors.Join(wrap("move", ErrUnsupported), d.Close())
	}
	return movable{opened, d}, nil
}
