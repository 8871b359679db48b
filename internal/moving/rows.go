package moving

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"iter"
	"math"
	"slices"
	"strings"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
)

// Limits of a page: some megabytes, however long rows are.
const (
	pageRows  = 2000
	firstRows = 200 // of a first page, since rows may be long
	pageBytes = 4 << 20
)

// A page is some rows, read at once, in the order of their keys.
type page struct {
	rows  [][]any
	bytes int
}

// pages reads the rows of a table after a key, one page ahead of its consumer. A nil key is before
// the first row; where is a condition on the rows, "" for all.
func pages(ctx context.Context, d engine.Movable, t engine.Table, where string,
	after []any,
) iter.Seq2[page, error] {
	return func(yield func(page, error) bool) {
		whole := ctx
		ctx, cancel := context.WithCancel(whole)
		type answer struct {
			page
			err error
		}
		answers := make(chan answer, 1)
		go func() {
			defer close(answers)
			limit := firstRows
			for {
				p, more, err := readPage(ctx, d, t, where, after, limit)
				if len(p.rows) > 0 || err != nil {
					select {
					case answers <- answer{p, err}:
					case <-ctx.Done():
						return
					}
				}
				if err != nil || !more {
					return
				}
				after = keyOf(t, p.rows[len(p.rows)-1])
				limit = min(pageRows, max(1, len(p.rows)*pageBytes/max(1, p.bytes)))
			}
		}()
		defer func() {
			cancel()
			for range answers { // until the reader has ended
			}
		}()
		for a := range answers {
			if !yield(a.page, a.err) || a.err != nil {
				return
			}
		}
		if whole.Err() != nil { // the reader may have stopped without an error before the end of the table
			yield(page{}, fmt.Errorf("interrupted: %w", context.Cause(whole)))
		}
	}
}

// readPage reads up to limit rows after a key. more reports that there may be others.
func readPage(ctx context.Context, d engine.Movable, t engine.Table, where string, after []any,
	limit int,
) (p page, more bool, err error) {
	key := keyColumns(t)
	err = d.Read(ctx, "move rows of "+t.Name, func(x engine.Rx) (err error) {
		p, more = page{}, false
		if after == nil {
			more, err = p.add(x, t, selection(t, where, damage.InOrder(key, "")), nil, limit)
			return err
		}
		for same := len(key) - 1; same >= 0 && !more && err == nil; same-- {
			condition, order := damage.Behind(key, same)
			if where != "" {
				condition += " AND " + where
			}
			more, err = p.add(x, t, selection(t, condition, order), after[:same+1], limit-len(p.rows))
		}
		return err
	}).Err
	return p, more, err
}

// add adds up to limit rows. more reports that there may be others.
func (p *page) add(x engine.Rx, t engine.Table, query string, args []any, limit int) (more bool, err error) {
	rows, err := x.Query(query, append(slices.Clone(args), limit))
	if err != nil {
		return false, err
	}
	defer func() { err = cmp.Or(err, rows.Close()) }() // the first error is returned
	nulls := nullable(t)
	n := 0
	for ; rows.Next(); n++ {
		values, err := scanned(rows, len(t.Columns)+len(nulls))
		if err != nil {
			return false, err
		}
		row := values[:len(t.Columns):len(t.Columns)]
		for i, column := range t.Columns { // the driver returns empty bytes as it does NULL
			at := slices.Index(nulls, i)
			if b, isBytes := row[i].([]byte); isBytes && b == nil {
				row[i] = nil
			}
			if column.Bytes && row[i] == nil && (column.NotNull || at >= 0 && values[len(t.Columns)+at] == int64(0)) {
				row[i] = []byte{}
			}
		}
		p.rows = append(p.rows, row)
		p.bytes += size(row)
		if p.bytes > 2*pageBytes {
			return true, nil
		}
	}
	return n == limit, rows.Err()
}

// scanned returns the values of the current row, which has n.
func scanned(rows engine.Rows, n int) ([]any, error) {
	values, dest := make([]any, n), make([]any, n)
	for i := range values {
		dest[i] = &values[i]
	}
	return values, rows.Scan(dest...)
}

// nullable returns the columns of bytes for which a query also reads whether they are NULL.
func nullable(t engine.Table) (columns []int) {
	for i, c := range t.Columns {
		if c.Bytes && !c.NotNull {
			columns = append(columns, i)
		}
	}
	return columns
}

// selection returns the query for a part of a page.
func selection(t engine.Table, condition, order string) string {
	columns := []string{quotedNames(t)}
	for _, i := range nullable(t) {
		columns = append(columns, engine.Quoted(t.Columns[i].Name)+" IS NULL")
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM " + engine.Quoted(t.Name)
	if condition != "" {
		query += " WHERE " + condition
	}
	return query + " ORDER BY " + order + " LIMIT ?"
}

// keyColumns returns the key of a table in the form in which its rows are read.
func keyColumns(t engine.Table) (columns []damage.KeyColumn) {
	for _, i := range key(t) {
		column, kind := t.Columns[i], "TEXT"
		if column.Bytes {
			kind = "BYTEA"
		}
		columns = append(columns, damage.KeyColumn{
			Name: engine.Quoted(column.Name), Type: kind, Beginning: column.Beginning,
		})
	}
	return columns
}

func keyOf(t engine.Table, row []any) (values []any) {
	for _, i := range key(t) {
		values = append(values, row[i])
	}
	return values
}

// size returns about how many bytes a row takes in memory.
func size(row []any) (n int) {
	for _, v := range row {
		n += 16
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// compareKeys orders keys as both engines do: numbers by value, texts and bytes byte by byte.
func compareKeys(a, b []any) (int, error) {
	for i := range a {
		order, alike := 0, false
		switch x := a[i].(type) {
		case int64:
			var y int64
			y, alike = b[i].(int64)
			order = cmp.Compare(x, y)
		case string:
			var y string
			y, alike = b[i].(string)
			order = cmp.Compare(x, y)
		case []byte:
			var y []byte
			y, alike = b[i].([]byte)
			order = bytes.Compare(x, y)
		}
		if !alike {
			return 0, fmt.Errorf("%w: a key has a %T where another has a %T", engine.ErrCorrupt, a[i], b[i])
		}
		if order != 0 {
			return order, nil
		}
	}
	return 0, nil
}

func same(a, b any) bool {
	switch a := a.(type) {
	case []byte:
		b, ok := b.([]byte)
		return ok && bytes.Equal(a, b)
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	}
	return a == b
}

// A digest is the SHA-256 of rows in a form that depends on no engine. A table is 'T', its name and
// the names of its columns. A row is 'r' and the values of its columns, ordered by name. A value is
// a letter and eight bytes, the lowest first: 'i' and an integer, 'f' and the bits of an IEEE 754
// double, 't' or 'b' and the length of the text or bytes that follow, 'n' and 0 for NULL. Names are
// written as text. Tables are ordered by name and rows by key.
type digest struct {
	hash hash.Hash
	buf  []byte
	rows int64
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) table(t engine.Table) {
	d.buf = append(d.buf[:0], 'T')
	d.value(t.Name)
	for _, c := range t.Columns {
		d.value(c.Name)
	}
	d.hash.Write(d.buf) //nolint:errcheck // a hash takes everything
}

func (d *digest) row(row []any) {
	d.rows++
	d.buf = append(d.buf[:0], 'r')
	for _, v := range row {
		d.value(v)
	}
	d.hash.Write(d.buf) //nolint:errcheck // a hash takes everything
}

func (d *digest) value(v any) {
	put := func(kind byte, n uint64) { d.buf = binary.LittleEndian.AppendUint64(append(d.buf, kind), n) }
	switch v := v.(type) {
	case nil:
		put('n', 0)
	case int64:
		put('i', uint64(v))
	case float64:
		put('f', math.Float64bits(v))
	case string:
		put('t', uint64(len(v)))
		d.buf = append(d.buf, v...)
	case []byte:
		put('b', uint64(len(v)))
		d.buf = append(d.buf, v...)
	}
}

func (d *digest) sum() string { return fmt.Sprintf("%x", d.hash.Sum(nil)) }
