package moving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"selvedge/internal/engine"
)

// Abandoned is the result of Abandon.
type Abandoned struct {
	From  string // the database that takes work again
	To    string // the target of the move
	Swept bool   // the rows copied to To were removed
}

// Place returns where the rows of a database are being moved, or were moved; "" if they are not.
func Place(ctx context.Context, from engine.Movable) (string, error) {
	here, err := endOf(ctx, from)
	if last := here.last(); last.Direction == engine.MovedOut && (last.UnderWay() || here.done()) {
		return last.Place, err
	}
	return "", err
}

// Abandon opens a database again whose rows were being moved to another, unless the other one is
// open. to is nil if no target can be read. With sweep, which needs a target, it also removes the rows
// that came there.
func Abandon(ctx context.Context, from, to engine.Movable, sweep bool, o Options) (a Abandoned, err error) {
	a.From = from.Path()
	if sweep {
		if err := to.Keep(ctx); err != nil {
			return a, err
		}
	}
	here, err := endOf(ctx, from)
	if err != nil {
		return a, err
	}
	var there end
	if to != nil {
		if there, err = endOf(ctx, to); err != nil {
			return a, err
		}
	}
	last := here.last()
	a.To = last.Place
	coming, isComing := there.underWay()
	isComing = isComing && coming.Direction == engine.MovedIn
	_, known := here.of(coming.Token)
	arrived, came := there.of(last.Token)
	switch {
	case last.Direction == engine.MovedIn && last.UnderWay():
		return a, engine.Moved(last)
	case isComing && !known && sweep:
		return a, engine.Moved(coming)
	case len(here.rows) == 0, !last.UnderWay() && !here.done() && *last.Outcome != engine.MoveAbandoned:
		return a, errNoMove
	case last.UnderWay() && there.has(last.Token): // the source has lost the end of its move
		last.Outcome = arrived.Outcome
		return a, engine.Moved(last)
	case last.UnderWay() && sweep && !came && to.Path() != last.Place:
		return a, elsewhere(last, to.Path())
	case here.done():
		a.Swept, err = undo(ctx, from, to, here.last(), there, sweep, o)
		return a, err
	case last.UnderWay():
		m := move{Options: o, from: from, token: last.Token}
		if err := m.abandon(ctx, "abandon the move"); err != nil {
			return a, err
		}
	}
	if isComing && sweep {
		err = sweepAll(ctx, to, coming, o)
		a.Swept = err == nil
	}
	return a, err
}

var errNoMove = engine.Failf(engine.ErrNotFound, "it is open: nothing is to be undone",
	"no move of it is under way")

// elsewhere returns the error for a target without a row of the move, which can't tell whether the
// move is over.
func elsewhere(going engine.MoveRow, path string) error {
	return engine.Failf(engine.ErrInvalid, "name that place with --to, or none",
		"the move goes to %s, and %s knows nothing of it", going.Place, path)
}

const sqlTakeBack = `UPDATE moves SET outcome = ?, moved = NULL, proof = NULL, checksum = ? WHERE id = ?
	AND outcome = ?`

// undo reopens a source whose move is complete, if its target was never open. The target's row
// decides: once the move is abandoned there, no program opens the rows that came.
func undo(ctx context.Context, from, to engine.Movable, done engine.MoveRow, there end, sweep bool,
	o Options,
) (swept bool, err error) {
	row, known := there.of(done.Token)
	switch {
	case !known || row.Direction != engine.MovedIn || there.has(done.Token):
		return false, engine.Moved(done)
	case !sweep:
		return false, &engine.Failure{
			Kind: engine.ErrMoved, Err: errors.New("it is moved to " + done.Place + ", which is not open yet"),
			Hint: "open that one with: migrate move --to " + done.Place +
				", or undo the move with: migrate move --abandon --to " + done.Place,
		}
	case row.UnderWay():
		if err := sweepAll(ctx, to, row, o); err != nil {
			return false, err
		}
		swept = true
	}
	return swept, from.Reopen(ctx, "abandon the move", func(t engine.Tx) error {
		outcome := engine.MoveAbandoned
		done.Outcome, done.Moved, done.Proof = &outcome, nil, nil
		n, err := t.Exec(sqlTakeBack, []any{outcome, done.Checksum(), done.ID, engine.MoveComplete})
		if err == nil && n != 1 {
			err = fmt.Errorf("%w: the source was given back already", engine.ErrConflict)
		}
		if err != nil {
			return err
		}
		return unshut(t)
	})
}

// sweepAll is sweep for all of our tables that exist.
func sweepAll(ctx context.Context, d engine.Movable, row engine.MoveRow, o Options) error {
	tables, err := describe(ctx, d)
	if err != nil {
		return err
	}
	names := ours()
	tables = slices.DeleteFunc(tables, func(t engine.Table) bool { return !slices.Contains(names, t.Name) })
	return sweep(ctx, d, plan{tables: inOrder(tables)}, row, o.Now())
}

// sweep removes the rows that were moved into a database.
func sweep(ctx context.Context, d engine.Movable, p plan, row engine.MoveRow, at time.Time) error {
	return d.Reopen(ctx, "take away what was moved", func(t engine.Tx) error {
		tables := slices.Clone(p.tables)
		slices.Reverse(tables)
		if err := d.Empty(t, tables); err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO scopes (id, name, checksum) VALUES (1, '', ?)`,
			[]any{engine.Checksum("")}); err != nil {
			return err
		}
		if err := d.Count(t, "scopes", 1); err != nil {
			return err
		}
		if err := endRow(t, row, engine.MoveAbandoned, at); err != nil {
			return err
		}
		return unshut(t)
	})
}
