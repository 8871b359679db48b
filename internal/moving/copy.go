package moving

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
)

// rowsAtOnce is how many rows one statement inserts. SQLite takes 32,766 values: those of 163 columns.
const rowsAtOnce = 200

// copy inserts the rows that the target does not have yet. Each table is filled in the order of its
// keys, some megabytes per transaction, so what an earlier call copied ends at the last key.
func (m *move) copy(ctx context.Context) error {
	if err := m.step(ctx, Copy); err != nil {
		return err
	}
	p := engine.Progress{Step: string(Copy)}
	m.counts = map[string]*TableReport{}
	if err := m.count(ctx, &p); err != nil {
		return err
	}
	for _, t := range m.plan.tables {
		if err := m.copyTable(ctx, t, &p); err != nil {
			return about(t, err)
		}
		if err := m.referToItself(ctx, t); err != nil {
			return about(t, err)
		}
	}
	return m.continueCounting(ctx)
}

// about wraps an error with the name of its table.
func about(t engine.Table, err error) error { return fmt.Errorf("table %s: %w", t.Name, err) }

// count counts the rows of both databases.
func (m *move) count(ctx context.Context, p *engine.Progress) error {
	at := func(d engine.Movable, keep func(t engine.Table, n int64)) error {
		return d.Read(ctx, "count rows", func(x engine.Rx) error {
			for _, t := range m.plan.tables {
				var n int64
				if err := x.Get(&n, "SELECT count(*) FROM "+engine.Quoted(t.Name), nil); err != nil {
					return err
				}
				keep(t, n)
			}
			return nil
		}).Err
	}
	read := map[string]int64{}
	err := at(m.from, func(t engine.Table, n int64) { read[t.Name] = n })
	if err != nil {
		return err
	}
	err = at(m.to, func(t engine.Table, n int64) {
		if isKept(t) {
			n = 0
		}
		m.counts[t.Name] = &TableReport{Table: t.Name, Read: read[t.Name], Already: n}
	})
	for _, c := range m.counts {
		p.Done += c.Already
		p.Total += c.Read
	}
	return err
}

func (m *move) copyTable(ctx context.Context, t engine.Table, p *engine.Progress) error {
	var after []any
	if isKept(t) { // triggers have filled it, not always with the rows of the source
		err := m.write(ctx, "begin with "+t.Name,
			func(tx engine.Tx) error { return m.to.Empty(tx, []engine.Table{t}) })
		if err != nil {
			return err
		}
	} else {
		var err error
		if after, err = m.lastKey(ctx, t); err != nil {
			return err
		}
	}
	own := selfReference(t)
	for read, err := range pages(ctx, m.from, t, "", after) {
		if err != nil {
			return err
		}
		if own >= 0 {
			leaveOut(t, own, read.rows)
		}
		if err := m.put(ctx, t, read.rows); err != nil {
			return err
		}
		m.counts[t.Name].New += int64(len(read.rows))
		p.Done += int64(len(read.rows))
		progress(ctx, *p)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
	}
	return nil
}

// lastKey returns the key of the last row in the target; nil for an empty table.
func (m *move) lastKey(ctx context.Context, t engine.Table) (after []any, err error) {
	t = *find(m.plan.there, t.Name)
	query := "SELECT " + quotedNames(t) + " FROM " + engine.Quoted(t.Name) + " ORDER BY " +
		damage.InOrder(keyColumns(t), " DESC") + " LIMIT 1"
	err = m.to.Read(ctx, "look how far the move is", func(x engine.Rx) (err error) {
		rows, err := x.Query(query, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		after = nil
		if rows.Next() {
			last, err := scanned(rows, len(t.Columns))
			if err != nil {
				return err
			}
			after = keyOf(t, last)
		}
		return rows.Err()
	}).Err
	return after, err
}

// put inserts rows in one transaction.
func (m *move) put(ctx context.Context, t engine.Table, rows [][]any) error {
	into := "INSERT INTO " + engine.Quoted(t.Name) + " (" + quotedNames(t) + ") VALUES "
	one := "(?" + strings.Repeat(", ?", len(t.Columns)-1) + ")"
	return m.write(ctx, "move rows of "+t.Name, func(tx engine.Tx) error {
		for some := range slices.Chunk(rows, rowsAtOnce) {
			text := into + one + strings.Repeat(", "+one, len(some)-1)
			if _, err := tx.Exec(text, slices.Concat(some...)); err != nil {
				return err
			}
		}
		return nil
	})
}

// leaveOut sets references to later rows to NULL.
func leaveOut(t engine.Table, column int, rows [][]any) {
	id := key(t)[0]
	for _, row := range rows {
		to, refers := row[column].(int64)
		if own, isNumber := row[id].(int64); refers && isNumber && to > own {
			row[column] = nil
		}
	}
}

// referToItself restores the references, once all rows of the table are copied.
func (m *move) referToItself(ctx context.Context, t engine.Table) error {
	column := selfReference(t)
	if column < 0 {
		return nil
	}
	id, to := engine.Quoted(t.Columns[key(t)[0]].Name), engine.Quoted(t.Columns[column].Name)
	later := "SELECT " + id + " AS id, " + to + " AS to_row FROM " + engine.Quoted(t.Name) + " WHERE " + id +
		" > ? AND " + to + " > " + id + " ORDER BY " + id + " LIMIT 1000"
	set := "UPDATE " + engine.Quoted(t.Name) + " SET " + to + " = ? WHERE " + id + " = ?"
	for after := int64(math.MinInt64); ; {
		var list []struct {
			ID int64 `db:"id"`
			To int64 `db:"to_row"`
		}
		err := m.from.Read(ctx, "move references of "+t.Name,
			func(x engine.Rx) error { return x.Select(&list, later, []any{after}) }).Err
		if err != nil || len(list) == 0 {
			return err
		}
		err = m.write(ctx, "move references of "+t.Name, func(tx engine.Tx) error {
			for _, one := range list {
				if _, err := tx.Exec(set, []any{one.To, one.ID}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		after = list[len(list)-1].ID
	}
}

// continueCounting raises the target's counters, so that it does not issue a number that the source has
// issued.
func (m *move) continueCounting(ctx context.Context) error {
	counters, err := m.counters(ctx, m.from)
	if err != nil {
		return err
	}
	return m.write(ctx, "move the counters", func(tx engine.Tx) error {
		for _, t := range m.plan.tables {
			if counters[t.Name] == 0 {
				continue
			}
			if err := m.to.Count(tx, t.Name, counters[t.Name]); err != nil {
				return about(t, err)
			}
		}
		return nil
	})
}

// counters returns the highest number that each table has issued or holds.
func (m *move) counters(ctx context.Context, d engine.Movable) (counters map[string]int64, err error) {
	err = d.Read(ctx, "read the counters", func(x engine.Rx) (err error) {
		if counters, err = d.Counters(x); err != nil {
			return err
		}
		for _, t := range m.plan.tables {
			last, counts := counters[t.Name]
			if !counts {
				continue
			}
			var highest int64
			id := engine.Quoted(t.Columns[key(t)[0]].Name)
			if err := x.Get(&highest, "SELECT coalesce(max("+id+"), 0) FROM "+engine.Quoted(t.Name), nil); err != nil {
				return err
			}
			counters[t.Name] = max(last, highest)
		}
		return nil
	}).Err
	return counters, err
}
