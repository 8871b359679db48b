package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Shut is the MinWriter of a database that only a program that moves its rows may write, and the
// MinReader of a half-filled one. It keeps out programs that know nothing of moves too.
const Shut int64 = math.MaxInt64

type forMoveKey struct{}

// ForMove makes Open open a database to move its rows, or to move rows into it, even if it is shut.
func ForMove(ctx context.Context) context.Context { return context.WithValue(ctx, forMoveKey{}, true) }

// IsForMove reports whether the context is from ForMove.
func IsForMove(ctx context.Context) bool { return ctx.Value(forMoveKey{}) != nil }

// Shut reports whether only a program that moves the database's rows may write it.
func (v Versions) Shut() bool { return v.MinWriter == Shut }

// ShutToReaders reports whether the database has only some of the rows that are being moved into
// it.
func (v Versions) ShutToReaders() bool { return v.MinReader == Shut }

// The directions of a MoveRow.
const (
	MovedOut = "out"
	MovedIn  = "in"
)

// The outcomes of a MoveRow.
const (
	MoveComplete  = "complete"
	MoveAbandoned = "abandoned"
)

// A MoveRow is a row of the table moves.
type MoveRow struct {
	ID        int64   `db:"id"`
	Token     []byte  `db:"token"`
	Direction string  `db:"direction"`
	Place     string  `db:"place"`
	BeganAt   int64   `db:"began_at"`
	EndedAt   *int64  `db:"ended_at"`
	Outcome   *string `db:"outcome"`
	Moved     *int64  `db:"moved"`
	Proof     *string `db:"proof"`
}

// UnderWay reports whether the move has not ended.
func (m MoveRow) UnderWay() bool { return m.Outcome == nil }

// Checksum returns the checksum of the row's columns.
func (m MoveRow) Checksum() int64 {
	return Checksum(m.Token, m.Direction, m.Place, m.BeganAt, m.EndedAt, m.Outcome, m.Moved, m.Proof)
}

// SQLLastMove reads the last move into a MoveRow.
const SQLLastMove = `SELECT id, token, direction, place, began_at, ended_at, outcome, moved, proof FROM moves
	ORDER BY id DESC LIMIT 1`

// Moved returns the error of opening a database that a move has shut. last is its last move.
func Moved(last MoveRow) error {
	if strings.ContainsAny(last.Place, " ?&*") {
		last.Place = "'" + last.Place + "'" // quoted for a shell
	}
	what, hint := "is moved to "+last.Place, "open "+last.Place+" in its place; to look, open this one read-only"
	switch {
	case last.UnderWay() && last.Direction == MovedOut:
		what = "is being moved to " + last.Place
		hint = "wait until that is over and open " + last.Place +
			"; where it was stopped, go on with: migrate move --to " + last.Place +
			", or undo it with: migrate move --abandon"
	case last.UnderWay():
		what = "is being filled with what is moved from " + last.Place
		hint = "wait until that is over; where it was stopped, run the same migrate move --db " + last.Place +
			" again; where " + last.Place +
			" is lost for good, its rows are not all here: remove this file, or on a server its tables with DROP " +
			"SCHEMA … CASCADE, and move a backup"
	}
	return &Failure{Kind: ErrMoved, Hint: hint, Err: errors.New("it " + what)}
}

// MovedTo reads the last move of a database that is shut, and returns the error of Moved for it.
func MovedTo(get Get) error {
	var last MoveRow
	err := get(&last, SQLLastMove)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: it is shut, and no move says why", ErrCorrupt)
	}
	if err != nil {
		return err
	}
	return Moved(last)
}

// A Movable is a database whose rows can be moved to another one, or come from one. It is open for
// a move, so it may be shut.
type Movable interface {
	Engine
	// Path returns where the database is, without secrets.
	Path() string

	// Keep keeps other programs from moving rows into the database until it is closed. It returns
	// ErrBusy if another program is doing so. It keeps every other program out of a file.
	Keep(ctx context.Context) error
	// Shut runs fn in a transaction after whose commit only programs that move rows can write. All
	// others, including those that already have the database open, get the error told. If the
	// database has living owners, Shut changes nothing and returns ErrBusy, which names them.
	Shut(ctx context.Context, why, told string, fn func(Tx) error) error
	// Reopen runs fn in a transaction after whose commit others may read and write again.
	Reopen(ctx context.Context, why string, fn func(Tx) error) error

	// Describe returns the tables of the schema, by name, including the user's and those that only
	// this engine has.
	Describe(Rx) ([]Table, error)
	// Counters returns, by the name of each table that counts its rows, the last number that it has
	// issued. A table that has issued none may be left out.
	Counters(Rx) (map[string]int64, error)
	// Count makes a table continue after this number.
	Count(t Tx, table string, last int64) error
	// Empty deletes all rows of the tables, in the order given: referring tables must come first.
	Empty(t Tx, tables []Table) error
	// KeyLimits returns the sets of columns of text and bytes that are indexed together, if an
	// index limits the length of a key.
	KeyLimits(Rx) ([]KeyLimit, error)
	// Fits returns, for each row, the error with which an index of the table rejects its values, or
	// nil. The values are in the order of Table.Columns. Fits changes nothing.
	Fits(ctx context.Context, table Table, rows [][]any) ([]error, error)
}

// A Table is a table of a database.
type Table struct {
	Name    string
	Columns []Column
	Refers  []Reference
}

// A Column is a column of a table.
type Column struct {
	Name    string `db:"name"`
	Bytes   bool   `db:"bytes"` // it holds bytes
	Text    bool   `db:"text"`  // it holds text
	NotNull bool   `db:"notnull"`
	Key     int    `db:"key"` // its place in the primary key, from 1; 0 if it is not in the key
	// Beginning reports that the key's index holds only the beginning of the column; see Start.
	Beginning bool `db:"beginning"`
}

// A Reference is a column that holds the key of a row of a table.
type Reference struct {
	Column string `db:"column"`
	Table  string `db:"table"`
}

// Describe reads the tables that the first query names. called turns the name of a table into the
// argument of the other two queries, which read its columns and the references of these.
func Describe(x Rx, sqlNames string, called func(name string) string, sqlColumns,
	sqlReferences string,
) (tables []Table, err error) {
	var names []string
	if err := x.Select(&names, sqlNames, nil); err != nil {
		return nil, err
	}
	for _, name := range names {
		t := Table{Name: name}
		if err := x.Select(&t.Columns, sqlColumns, []any{called(name)}); err != nil {
			return nil, err
		}
		if err := x.Select(&t.Refers, sqlReferences, []any{called(name)}); err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// Start returns the SQL expression for the beginning of a text of any length, which is what
// PostgreSQL's indexes hold. See package db.
func Start(column string) string { return "coalesce(substr(" + column + ", 1, 200), " + column + ")" }

// A KeyLimit is an index that limits the length of a key.
type KeyLimit struct {
	Table   string
	Columns []string
}
