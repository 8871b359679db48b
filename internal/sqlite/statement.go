package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/internal/scan"
)

// statementCacheSize bounds the prepared statements that a connection keeps. The stores have a few
// dozen; lists with filters add their shapes. At the bound the unused ones are closed.
const statementCacheSize = 512

// A statement is prepared once and used by one query at a time: stepping it again while its rows
// are open would restart them, and closing it would end the process.
//
// The driver prepares it. Arguments are bound and rows are read here, with SQLite's own functions
// (sqlite.org/c3ref/stmt.html): the driver reads the names of all columns and of all parameters in
// each use, and copies each text. A text of several statements, or of none, is left to the driver.
type statement struct {
	session  *session
	query    string
	prepared driver.Stmt // nil before its first use
	handle   uintptr     // SQLite's; 0 for a text of several statements, or of none
	named    []string    // of its parameters, if any has a name
	places   int         // how many parameters SQLite found

	kept   bool // in the cache
	used   bool
	open   bool // to callers: examine allows it
	params int  // how many arguments it takes, as examine found

	// Of the use under way.
	bound []any // converted, until SQLite has them
	room  room
	rows  scan.Rows
	found found
}

// checkout lends the statement for query to one user, until it is put back.
func (s *session) checkout(query string) (*statement, error) {
	kept, ok := s.statements[query]
	if ok && !kept.used {
		kept.used = true
		return kept, nil
	}
	fresh := &statement{session: s, query: query, used: true}
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

func (s *session) closeStatement(st *statement) error {
	if st.prepared == nil {
		return nil
	}
	return s.conn.Raw(func(any) error { return st.prepared.Close() })
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

func (s *session) execOnce(st *statement, args []any) (n int64, err error) {
	defer s.putBackAfter(st, &err)
	if err := st.prepare(); err != nil {
		return 0, err
	}
	if st.handle == 0 {
		return st.script(args)
	}
	err = st.bind(args)
	for more := true; more && err == nil; {
		more, err = st.step(background)
	}
	if err == nil {
		n = int64(sqlite3.Xsqlite3_changes(s.tls, s.db))
	}
	return n, cmp.Or(err, st.reset())
}

// A scanner reads the rows that were found: scan.One or scan.All.
type scanner func(found *scan.Rows, dest any) error

func (s *session) scanOnce(st *statement, into scanner, dest any, args []any) (err error) {
	defer s.putBackAfter(st, &err)
	found, err := st.run(background, args)
	if err != nil {
		return err
	}
	return into(found, dest)
}

// putBackAfter is putBack for a defer: a caller's sql.Scanner or driver.Valuer may end the goroutine.
func (s *session) putBackAfter(st *statement, err *error) {
	if back := s.putBack(st); *err == nil {
		*err = back
	}
}

func (s *session) queryContext(ctx context.Context, query string, args []any) (*rows, error) {
	if _, err := examined(query, args); err != nil {
		return nil, err
	}
	return s.ask(ctx, &statement{session: s, query: query, used: true}, args)
}

func (s *session) query(query string, args []any) (*rows, error) {
	st, err := s.admit(query, args)
	if err != nil {
		return nil, err
	}
	return s.ask(background, st, args)
}

func (s *session) ask(ctx context.Context, st *statement, args []any) (r *rows, err error) {
	defer func() {
		if r == nil { // a driver.Valuer may have panicked
			s.putBackAfter(st, &err)
		}
	}()
	found, err := st.run(ctx, args)
	if err == nil {
		r = &rows{Rows: found, statement: st, ctx: ctx}
	}
	return r, err
}

// rows belong to the transaction that reads them.
type rows struct {
	*scan.Rows
	rx        *rx
	statement *statement
	ctx       context.Context // of QueryContext
	closed    bool
	ended     error // what ended the rows early, once they are closed
}

var _ engine.Rows = (*rows)(nil)

// Next moves to the next row.
func (r *rows) Next() bool { return !r.closed && r.Rows.Next() }

func (r *rows) Scan(dest ...any) error {
	if r.closed {
		return errClosed
	}
	return r.spoiled(r.Rows.Scan(dest...))
}

func (r *rows) ScanStruct(dest any) error {
	if r.closed {
		return errClosed
	}
	return r.spoiled(r.Rows.ScanStruct(dest))
}

var errClosed = fmt.Errorf("%w: the rows are closed", engine.ErrInvalid)

func (r *rows) spoiled(err error) error {
	if err == nil || r.statement.handle == 0 {
		return err
	}
	st := r.statement
	if wrong := damage.Wrong(background, r.rx.session.conn, st.query, &st.found); wrong != nil {
		return spoiled(wrong)
	}
	return err
}

// Err returns the error that ended the rows early.
func (r *rows) Err() error {
	if r.closed {
		return r.ended
	}
	return r.rx.after(r.Rows.Err())
}

// Close ends the query and puts its statement back.
func (r *rows) Close() error {
	if r.closed {
		return nil
	}
	r.ended = r.Err()
	r.closed = true
	err := r.Rows.Close()
	if back := r.rx.session.putBack(r.statement); err == nil {
		err = back
	}
	r.rx.open = slices.DeleteFunc(r.rx.open, func(other *rows) bool { return other == r })
	if err == nil { // the interrupted statement may have been a change
		err = r.ctx.Err()
	}
	return r.rx.after(err)
}
