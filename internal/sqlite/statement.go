package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/internal/scan"
)

// statementCacheSize bounds the prepared statements that a connection keeps. The stores have a few
// dozen; lists with filters add their shapes. At the bound the unused ones are closed.
const statementCacheSize = 512

// A statement is prepared once and used by one query at a time: stepping it again while its rows
// are open would restart them, and closing it would end the process.
type statement struct {
	query string
	rows  *sqlx.Stmt             // prepared for its first query
	exec  driver.StmtExecContext // prepared for its first change

	kept   bool // in the cache
	used   bool
	open   bool // to callers, as examine found
	params int  // how many arguments it takes, once it is open
}

// checkout lends the statement for query to one user, until it is put back.
func (s *session) checkout(query string) (*statement, error) {
	kept, ok := s.statements[query]
	if ok && !kept.used {
		kept.used = true
		return kept, nil
	}
	fresh := &statement{query: query, used: true}
	if !ok {
		if len(s.statements) >= statementCacheSize {
			if err := s.forget(); err != nil {
				return nil, err
			}
		}
		fresh.kept = true
		s.statements[query] = fresh
	}
	return fresh, nil
}

// admit is checkout for a caller's statement. It examines a text once for as long as the text is
// kept prepared.
func (s *session) admit(query string, args []any) (*statement, error) {
	kept, ok := s.statements[query]
	if ok && kept.open && !kept.used {
		if err := takes(kept.params, args); err != nil {
			return nil, err
		}
		kept.used = true
		return kept, nil
	}
	params, err := examined(query, args)
	if err != nil {
		return nil, err
	}
	st, err := s.checkout(query)
	if err != nil {
		return nil, err
	}
	st.open, st.params = true, params
	return st, nil
}

// examined is examine for a statement that gets these arguments.
func examined(query string, args []any) (params int, err error) {
	if params, err = examine(query); err == nil {
		err = takes(params, args)
	}
	return params, err
}

func takes(params int, args []any) error {
	if params == len(args) || params == anyNumber {
		return nil
	}
	return fmt.Errorf("%w: the statement takes %d arguments and was given %d", engine.ErrInvalid, params,
		len(args))
}

// putBack ends a use.
func (s *session) putBack(st *statement) error {
	st.used = false
	if st.kept {
		return nil
	}
	return s.closeStatement(st)
}

func (s *session) closeStatement(st *statement) (err error) {
	if st.rows != nil {
		err = st.rows.Close()
	}
	if st.exec != nil {
		err = errors.Join(err, s.conn.Raw(func(any) error { return st.exec.(driver.Stmt).Close() }))
	}
	return err
}

// forget closes the unused statements.
func (s *session) forget() error {
	for query, st := range s.statements {
		if st.used {
			continue
		}
		delete(s.statements, query)
		if err := s.closeStatement(st); err != nil {
			return err
		}
	}
	return nil
}

// exec runs a statement of ours.
func (s *session) exec(query string, args ...any) (int64, error) {
	st, err := s.checkout(query)
	if err != nil {
		return 0, err
	}
	return s.execOnce(st, args)
}

// Get reads one row with a statement of ours.
func (s *session) Get(dest any, query string, args ...any) error {
	return s.scan(scan.One, dest, query, args)
}

// Select reads all rows with a statement of ours.
func (s *session) Select(dest any, query string, args ...any) error {
	return s.scan(scan.All, dest, query, args)
}

func (s *session) scan(into scanner, dest any, query string, args []any) error {
	st, err := s.checkout(query)
	if err != nil {
		return err
	}
	return s.scanOnce(st, into, dest, args)
}

func (s *session) execOnce(st *statement, args []any) (int64, error) {
	n, err := s.change(st, args)
	if back := s.putBack(st); err == nil {
		err = back
	}
	return n, err
}

// change runs a statement that returns no rows with the driver itself: database/sql's own part
// would be a tenth of a lone append's time between BEGIN and COMMIT.
func (s *session) change(st *statement, args []any) (int64, error) {
	s.args = s.args[:0] // a Valuer that panicked has left some
	for i, arg := range args {
		value := driver.NamedValue{Ordinal: i + 1, Value: arg}
		switch arg.(type) {
		case nil, int64, string, []byte, float64: // the driver takes them as they are
		default:
			if err := convert(&value); err != nil {
				s.args = s.args[:0]
				return 0, fmt.Errorf("%w: argument %d: %w", engine.ErrInvalid, i+1, err)
			}
		}
		s.args = append(s.args, value)
	}
	s.changing = st
	err := s.conn.Raw(s.raw)
	clear(s.args)
	s.args, s.changing = s.args[:0], nil
	return s.changed, err
}

// convert makes an argument one that the driver takes, as database/sql does.
func convert(arg *driver.NamedValue) (err error) {
	if named, ok := arg.Value.(sql.NamedArg); ok {
		arg.Name, arg.Value = named.Name, named.Value
	}
	arg.Value, err = driver.DefaultParameterConverter.ConvertValue(arg.Value)
	return err
}

// withDriver is the part of change that runs while database/sql keeps others from the connection.
func (s *session) withDriver(conn any) (err error) {
	st := s.changing
	s.changed = 0
	if st.exec == nil {
		prepared, err := conn.(driver.ConnPrepareContext).PrepareContext(background, st.query)
		if err != nil {
			return err
		}
		st.exec = prepared.(driver.StmtExecContext)
	}
	result, err := st.exec.ExecContext(background, s.args)
	if err == nil && result != nil { // a comment has none
		s.changed, err = result.RowsAffected()
	}
	return err
}

// A scanner reads the rows that were found: scan.One or scan.All.
type scanner func(found *sqlx.Rows, dest any) error

func (s *session) scanOnce(st *statement, into scanner, dest any, args []any) (err error) {
	defer s.putBackAfter(st, &err)
	found, err := s.found(st, args)
	if err != nil {
		return err
	}
	return into(found, dest)
}

// putBackAfter is putBack for a defer: a caller's sql.Scanner may end the goroutine.
func (s *session) putBackAfter(st *statement, err *error) {
	if back := s.putBack(st); *err == nil {
		*err = back
	}
}

// found runs a query.
func (s *session) found(st *statement, args []any) (_ *sqlx.Rows, err error) {
	if st.rows == nil {
		if st.rows, err = s.conn.PreparexContext(background, st.query); err != nil {
			return nil, err
		}
	}
	return st.rows.QueryxContext(background, args...)
}

func (s *session) queryContext(ctx context.Context, query string, args []any) (*rows, error) {
	if _, err := examined(query, args); err != nil {
		return nil, err
	}
	found, err := s.conn.QueryxContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return &rows{Rows: scan.Rows{Rows: found}, query: query, ctx: ctx}, nil
}

func (s *session) query(query string, args []any) (*rows, error) {
	st, err := s.admit(query, args)
	if err != nil {
		return nil, err
	}
	found, err := s.found(st, args)
	if err != nil {
		return nil, errors.Join(err, s.putBack(st))
	}
	return &rows{Rows: scan.Rows{Rows: found}, statement: st, query: query}, nil
}

// rows belong to the transaction that reads them.
type rows struct {
	scan.Rows
	rx        *rx
	statement *statement // nil: not kept
	query     string
	ctx       context.Context // of QueryContext
	closed    bool
}

var _ engine.Rows = (*rows)(nil)

func (r *rows) Scan(dest ...any) error { return r.spoiled(r.Rows.Scan(dest...)) }

func (r *rows) ScanStruct(dest any) error { return r.spoiled(r.Rows.ScanStruct(dest)) }

func (r *rows) spoiled(err error) error {
	if err == nil {
		return nil
	}
	if wrong := damage.Wrong(background, r.rx.session.conn, r.query, r.Rows.Rows); wrong != nil {
		return spoiled(wrong)
	}
	return err
}

// Err returns the error that ended the rows early.
func (r *rows) Err() error { return r.rx.after(r.Rows.Err()) }

// Close ends the query and puts its statement back.
func (r *rows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	err := r.Rows.Close()
	if r.statement != nil {
		if back := r.rx.session.putBack(r.statement); err == nil {
			err = back
		}
	}
	r.rx.open = slices.DeleteFunc(r.rx.open, func(other *rows) bool { return other == r })
	if r.ctx != nil && err == nil { // the interrupted statement may have been a change
		err = r.ctx.Err()
	}
	return r.rx.after(err)
}
