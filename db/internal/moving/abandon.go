package moving

import (
	"context"
	"errors"
	"slices"
	"time"

	"selvedge/db/internal/engine"
)

// Abandoned is what Abandon did.
type Abandoned struct {
	Path  string // the database that is open again
	Place string // where its rows were under way to
	Swept bool   // what was there of them is gone
}

// Abandon opens a database again whose rows were under way to another, unless they have arrived. Where to is that other one, what lies
// there of them is taken away.
func Abandon(ctx context.Context, from, to engine.Movable, o Options) (a Abandoned, err error) {
	a.Path = from.Path()
	here, err := endOf(ctx, from)
	if err != nil {
		return a, err
	}
	last := here.last()
	a.Place = last.Place
	switch {
	case len(here.rows) == 0:
		return a, errNoMove
	case last.Direction == engine.MovedIn && last.UnderWay(), here.done():
		return a, engine.Moved(last)
	case !last.UnderWay() && *last.Outcome != engine.MoveAbandoned:
		return a, errNoMove
	}
	if last.UnderWay() && to != nil { // it may have lost the end of its move
		there, err := endOf(ctx, to)
		if err != nil {
			return a, err
		}
		if arrived, _ := there.of(last.Token); there.has(last.Token) {
			last.Outcome = arrived.Outcome
			return a, engine.Moved(last)
		}
	}
	if last.UnderWay() {
		err := from.Reopen(ctx, "abandon the move", func(t engine.Tx) error {
			m := move{token: last.Token, Options: o}
			if err := m.end(t, engine.MoveAbandoned); err != nil {
				return err
			}
			return unshut(t)
		})
		if err != nil {
			return a, err
		}
	}
	if to == nil {
		return a, nil
	}
	if err := to.Keep(ctx); err != nil {
		return a, err
	}
	there, err := endOf(ctx, to)
	if err != nil {
		return a, err
	}
	coming, isComing := there.underWay()
	if !isComing || coming.Direction != engine.MovedIn {
		return a, nil // nothing came there
	}
	if _, known := here.of(coming.Token); !known {
		return a, engine.Moved(coming)
	}
	tables, err := describe(ctx, to)
	if err != nil {
		return a, err
	}
	names := ours()
	tables = slices.DeleteFunc(tables, func(t engine.Table) bool { return !slices.Contains(names, t.Name) })
	if err := sweep(ctx, to, plan{tables: inOrder(tables)}, coming, o.Now()); err != nil {
		return a, err
	}
	a.Swept = true
	return a, nil
}

var errNoMove = &engine.Failure{Kind: engine.ErrNotFound, Hint: "it is open: nothing is to be undone", Err: errors.New("no move of it is under way")}

// sweep leaves a database as it was before rows were moved into it.
func sweep(ctx context.Context, d engine.Movable, p plan, row engine.MoveRow, at time.Time) error {
	return d.Reopen(ctx, "take away what was moved", func(t engine.Tx) error {
		tables := slices.Clone(p.tables)
		slices.Reverse(tables)
		if err := d.Empty(t, tables); err != nil {
			return err
		}
		if _, err := t.Exec(`INSERT INTO scopes (id, name, checksum) VALUES (1, '', ?)`, []any{engine.Checksum("")}); err != nil {
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
