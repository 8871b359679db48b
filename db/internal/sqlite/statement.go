package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jmoiron/sqlx"

	"selvedge/db/internal/engine"
)

// statementCacheSize bounds the prepared statements that a connection keeps. The stores have a few dozen; lists with filters
// add their shapes. When it is reached those that nobody uses go.
const statementCacheSize = 512

// A statement is prepared once and used by one query at a time: stepping it again while its rows are open would restart
// them, and closing it would end the process.
type statement struct {
	*sqlx.Stmt
	kept bool // in the cache
	used bool
}

// checkout gives a statement for query that nobody else uses until it is put back.
func (s *session) checkout(query string) (*statement, error) {
	kept, ok := s.statements[query]
	if ok && !kept.used {
		kept.used = true
		return kept, nil
	}
	st, err := s.conn.PreparexContext(background, query)
	if err != nil {
		return nil, err
	}
	fresh := &statement{Stmt: st, used: true}
	if !ok {
		if len(s.statements) >= statementCacheSize {
			if err := s.forget(); err != nil {
				return nil, errors.Join(err, st.Close())
			}
		}
		fresh.kept = true
		s.statements[query] = fresh
	}
	return fresh, nil
}

// putBack ends a use.
func (s *session) putBack(st *statement) error {
	st.used = false
	if st.kept {
		return nil
	}
	return st.Close()
}

// forget closes the statements that nobody uses.
func (s *session) forget() error {
	for query, st := range s.statements {
		if st.used {
			continue
		}
		delete(s.statements, query)
		if err := st.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) exec(query string, args ...any) (int64, error) {
	st, err := s.checkout(query)
	if err != nil {
		return 0, err
	}
	result, err := st.ExecContext(background, args...)
	if back := s.putBack(st); err == nil {
		err = back
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s *session) get(dest any, query string, args []any) error {
	st, err := s.checkout(query)
	if err != nil {
		return err
	}
	err = st.GetContext(background, dest, args...)
	if errors.Is(err, sql.ErrNoRows) {
		err = engine.ErrNotFound
	}
	if back := s.putBack(st); err == nil {
		err = back
	}
	return err
}

func (s *session) selectAll(dest any, query string, args []any) error {
	st, err := s.checkout(query)
	if err != nil {
		return err
	}
	err = st.SelectContext(background, dest, args...)
	if back := s.putBack(st); err == nil {
		err = back
	}
	return err
}

func (s *session) queryContext(ctx context.Context, query string, args []any) (*rows, error) {
	found, err := s.conn.QueryxContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return &rows{Rows: found, query: query}, nil
}

func (s *session) query(query string, args []any) (*rows, error) {
	st, err := s.checkout(query)
	if err != nil {
		return nil, err
	}
	found, err := st.QueryxContext(background, args...)
	if err != nil {
		return nil, errors.Join(err, s.putBack(st))
	}
	return &rows{Rows: found, statement: st, query: query}, nil
}

// rows belong to the transaction that reads them.
type rows struct {
	*sqlx.Rows
	rx        *rx
	statement *statement // nil: not kept
	query     string
	closed    bool
}

var _ engine.Rows = (*rows)(nil)

func (r *rows) ScanStruct(dest any) error { return r.StructScan(dest) }

// Err is what ended the rows early.
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
	return r.rx.after(err)
}
