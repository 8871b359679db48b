package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/txn"
)

// queryAnswer is the shape of query --json. It is written row by row, see rows.go.
type queryAnswer struct {
	Columns []string `json:"columns"` // names of the columns, as SQLite gives them
	// a list for each row, with a value for each column, as described under Values
	Rows      [][]any `json:"rows"`
	Truncated bool    `json:"truncated"` // there were more rows than --limit
}

// tableLimit is the number of rows of a table without --limit: a table is drawn only once its last
// row is read.
const tableLimit = 1000

type queryFlags struct {
	parameters []string
	limit      int
	timeout    time.Duration
	form       rowForm
}

var _ = register("Look:", 10, func(a *app) *cobra.Command {
	var f queryFlags
	var form func() (rowForm, error)
	c := &cobra.Command{
		Use:   "query SQL [-p name=value]... [--table|--json|--nl|--csv]",
		Short: "Answer a question in SQL; it can't change anything",
		Long: `query runs one reading statement (SELECT, WITH, VALUES, EXPLAIN, or a PRAGMA that only shows
something) on a connection that can't write. The SQL "-" is read from standard input. The views v_… are made
for queries; see docs/queries.md.

Parameters are written :name in the SQL and given by -p name=value. A value that looks like an integer or a
decimal is one, everything else is text; -p name:TYPE=value states the type: text, int, real, blob (in hex)
or null. A query sees the file as it was when it began; the WAL can't restart from its beginning until the
output was read to the end.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fail(kindUsage, "put it in quotes: migrate query "+shellWord(strings.Join(args, " ")),
					"the SQL is one word of the shell, and these are %d", len(args))
			}
			return cobra.ExactArgs(1)(nil, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.limit < 0 || f.timeout < 0 {
				return usage("--limit and --timeout can't be negative")
			}
			var err error
			if f.form, err = form(); err != nil {
				return err
			}
			if !c.Flags().Changed("limit") {
				f.limit = -1
			}
			return a.query(c.Context(), args[0], f)
		},
	}
	flags := c.Flags()
	flags.StringArrayVarP(&f.parameters, "param", "p", nil, "a parameter as `name=value`; may be repeated")
	flags.IntVar(&f.limit, "limit", 0, "at most `N` rows; 0 means all (default: all, and 1000 in a table)")
	flags.DurationVar(&f.timeout, "timeout", 0, "give up after `TIME`, as in 30s or 5m; 0 means never")
	form = a.formFlags(c)
	return a.answering(c, queryAnswer{})
})

func (a *app) query(ctx context.Context, text string, f queryFlags) error {
	if text == "-" {
		all, err := io.ReadAll(a.stdin)
		if err != nil {
			return fmt.Errorf("read the SQL: %w", err)
		}
		text = string(all)
	}
	s, err := readStatement(text, a.dialect())
	if err != nil {
		return err
	}
	args, err := parameters(s, f.parameters)
	if err != nil {
		return err
	}
	if f.timeout > 0 {
		a.timeout = f.timeout + grace // this program times out first, and reports it
		timer := time.AfterFunc(f.timeout, func() {
			a.stop(fail(kindFailed, "give it more time: "+a.longer("--timeout", f.timeout),
				"the query was not done after %v", f.timeout))
		})
		defer timer.Stop()
	}
	var kept bytes.Buffer // so that no read stays open while a pager shows the answer
	to := a.stdout
	if f.form.kept {
		to = &kept
	} else if f.form.isJSON && !a.json {
		to = &jsonEscaper{to: to}
	}
	err = a.with(ctx, toLook, func(d *db.DB) error {
		began := false
		err := queryFault(d.Read(ctx, "query", func(rx *db.Rx) error {
			if began { // the read runs again after a lost connection
				kept.Reset()
				if !f.form.kept {
					return fmt.Errorf("%w: the connection to the server was lost in the middle of the answer", db.ErrIO)
				}
			}
			began = true
			return a.writeRows(ctx, rx, f, to, s.text, args)
		}))
		if hint := a.nameHint(ctx, d, text, err); hint != "" {
			return &fault{kind: kindUsage, hint: hint, err: err}
		}
		return err
	})
	if err == nil && f.form.kept {
		a.paged(func() { a.write(kept.String()) })
		err = a.failed
	}
	if late := new(fault); err != nil && errors.As(context.Cause(ctx), &late) {
		return late // wherever the time ran out
	}
	return err
}

// writeRows runs the statement.
func (a *app) writeRows(
	ctx context.Context, rx *db.Rx, f queryFlags, to io.Writer, text string, args []any,
) error {
	rows, err := rx.Store().QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 64<<10)
	w, err := f.form.writer(a, columns, out)
	if err != nil {
		return err
	}
	limit := f.limit
	if limit < 0 && f.form.kept {
		limit = tableLimit
	}
	truncated, err := copyRows(rows, w, limit, len(columns))
	if err == nil {
		err = w.end(truncated)
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil && truncated && !a.json {
		a.noteBelow("note: there are more rows; --limit 0 shows all")
	}
	return err
}

func copyRows(rows *txn.Rows, w rowWriter, limit, columns int) (truncated bool, err error) {
	values, cells := make([]any, columns), make([]any, columns)
	for i := range values {
		cells[i] = &values[i]
	}
	n := 0
	for row, err := range rows.All() {
		switch {
		case err != nil:
			return false, err
		case limit > 0 && n == limit:
			return true, nil
		}
		n++
		if err := row.Scan(cells...); err != nil {
			return false, err
		}
		if err := w.row(values); err != nil {
			return false, err
		}
	}
	return false, nil
}

// queryFault turns an error that is the fault of the SQL into a usage error.
func queryFault(err error) error {
	switch wrong, blamed := engine.BlamesStatement(err); {
	case !blamed:
		return err
	case wrong.Writes:
		return &fault{kind: kindUsage, hint: "query only reads; nothing was changed", err: err}
	}
	return &fault{kind: kindUsage, hint: "docs/SCHEMA.md has the tables and views, docs/queries.md " +
		"has examples", err: err}
}
