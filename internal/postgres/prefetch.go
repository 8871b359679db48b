package postgres

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// mostPrefetched bounds, in bytes, the prefetched answers that a transaction keeps. A question
// beyond it is asked again.
const mostPrefetched = 16 << 20

// answers are the prefetched answers, by question: a statement with its arguments.
type answers struct {
	by   map[string]*results
	size int
}

// question is a statement with its arguments as one text.
func question(query string, b *bound) string {
	text := append(make([]byte, 0, len(query)+16*len(b.values)), query...)
	for _, value := range b.values {
		if value == nil {
			text = append(text, 0)
			continue
		}
		text = append(binary.AppendUvarint(append(text, 1), uint64(len(value))), value...)
	}
	return string(text)
}

// prefetch sends a question with the next statement, in its message. The first caller that asks the
// same gets the answer.
func (w *wire) prefetch(ctx context.Context, query string, args []any) error {
	b, err := w.bindDraw(ctx, query, args)
	if err == nil {
		b.question = question(query, &b)
		w.dropped = false
		err = w.add(ctx, b)
	}
	return w.lost(ctx, err)
}

// prefetched returns the prefetched answer to a question, once; nil if there is none.
func (w *wire) prefetched(ctx context.Context, query string, b *bound) (*results, error) {
	unsent := func(other bound) bool { return other.question != "" }
	if len(w.answers.by) == 0 && !slices.ContainsFunc(w.ahead, unsent) {
		return nil, nil
	}
	asked := question(query, b)
	if slices.ContainsFunc(w.ahead, func(other bound) bool { return other.question == asked }) {
		if err := w.flush(ctx); err != nil {
			return nil, err
		}
	}
	kept := w.answers.by[asked]
	if kept != nil {
		delete(w.answers.by, asked)
		w.answers.size -= kept.size
	}
	return kept, nil
}

// keep reads the answer to a question, and keeps it.
func (w *wire) keep(ctx context.Context, b *bound, from *pgconn.ResultReader) error {
	r := &results{wire: w, ctx: ctx, prepared: b.prepared, reader: &reader{ResultReader: from}}
	var failed error
	for failed == nil && w.answers.size+r.size <= mostPrefetched && from.NextRow() {
		failed = r.keep()
	}
	whole := w.answers.size+r.size <= mostPrefetched
	_, err := from.Close()
	if r.reader = nil; err != nil || failed != nil || !whole {
		return err // asking the question again reports what is wrong with a value
	}
	if w.answers.by == nil {
		w.answers.by = map[string]*results{}
	}
	w.answers.by[b.question] = r
	w.answers.size += r.size
	return nil
}

// drop forgets the prefetched answers: a change is about to run that may alter them.
func (w *wire) drop() {
	unsent := func(b bound) bool { return b.question != "" }
	if len(w.answers.by) > 0 || slices.ContainsFunc(w.ahead, unsent) {
		w.dropped = true
	}
	w.ahead = slices.DeleteFunc(w.ahead, unsent) // BEGIN stays the first
	w.answers = answers{}
}

// Prefetches reports whether the prefetched answers are still valid.
func (x *rx) Prefetches() bool { return !x.session.wire.dropped }

// Prefetch asks ahead.
func (x *rx) Prefetch(query string, args []any) error {
	if err := x.usable(); err != nil {
		return err
	}
	return x.after(x.session.wire.prefetch(x.session.wire.ctx, query, args))
}

// sqlNumbers draws numbers for new rows of a table from the sequence behind its key.
const sqlNumbers = `SELECT nextval(s.behind) FROM (
    SELECT pg_get_serial_sequence(quote_ident(c.relname), a.attname)::regclass AS behind
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.oid = to_regclass(?) AND a.attidentity <> '' AND NOT a.attisdropped) AS s, generate_series(1, ?)`

// numbers are a transaction's numbers for new rows, by table.
type numbers map[string]struct {
	has    []int64
	expect int
}

// Expect announces how many rows are about to be numbered.
func (t *tx) Expect(table string, rows int) {
	if t.numbers == nil {
		t.numbers = numbers{}
	}
	n := t.numbers[table]
	n.expect += rows
	t.numbers[table] = n
}

// Drawn does nothing: no sequence goes back.
func (*tx) Drawn(string, int64) {}

// Drawing returns the SQL that draws the next number of the sequence behind the key.
func (*tx) Drawing(table, key string) string { return "nextval('" + table + "_" + key + "_seq')" }

// Number numbers a row, and all that are expected with it.
func (t *tx) Number(table string) (int64, error) {
	t.Expect(table, 0)
	n := t.numbers[table]
	if len(n.has) == 0 {
		if err := t.Select(&n.has, sqlNumbers, []any{table, max(n.expect, 1)}); err != nil {
			return 0, err
		}
		slices.Sort(n.has)
		n.expect = 0
	}
	first := n.has[0]
	n.has = n.has[1:]
	t.numbers[table] = n
	return first, nil
}
