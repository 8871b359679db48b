package db

import (
	"context"
	"errors"
	"fmt"

	"selvedge/internal/callback"
	"selvedge/internal/sqlite"
)

// SalvageOptions says what Salvage keeps. The zero value keeps what is whole.
type SalvageOptions struct {
	// KeepSuspect also keeps rows whose checksum does not match. They come without a checksum.
	KeepSuspect bool
	// Finish, if not nil, is called with the new file, open, before the file gets its name, and
	// returns the problems that remain. If it fails, the new file is discarded. nil means DB.Check.
	// maintenance.Salvage has one that knows the stores.
	Finish func(context.Context, *DB) ([]Problem, error)
}

// Salvaged is the result of Salvage.
type Salvaged struct {
	Schema   int64 // schema version of the damaged file; the new one has this program's
	Pages    int   // of the damaged file
	Damaged  int   // of them pages that lead to others, or hold rows, and can't be read
	Tables   []SalvagedTable
	Notes    []string  // what else is lost, for people
	Problems []Problem // what SalvageOptions.Finish says of the new file
}

// SalvagedTable is what became of the rows of a table.
type SalvagedTable struct {
	Table   string
	Taken   int64 // rows in the new file
	Suspect int64 // rows with another checksum, or with values of other types, than they should have
	// rows that were read but don't fit into the new file: they are in its table salvage_leftovers,
	// with the reason
	Aside int64
	// rows that could not be read; nil: unknown, because a page that may have held some is damaged
	Lost *int64
}

// Salvage reads the damaged file at from page by page, with the commits in its WAL, and copies
// every whole row into a new file at to. Damage to one page costs no rows of other pages: neither
// indexes nor interior pages are needed. Rows that refer to lost rows, break a constraint, or fail
// their checksum go into the table salvage_leftovers of the new file as SQL text, each with its
// reason. A run whose row is lost is recreated from its trace or events, if those are left. Counts
// are corrected, and gaps closed where positions must be dense. The new file has a new generation,
// so older cursors have expired.
//
// The new file passes Check. Only the stores know what a run must say of its trace:
// maintenance.Salvage restores that too, and is the one to call unless the stores are your own.
//
// Salvage does not change the damaged file, which must not be open anywhere (ErrBusy). An existing
// file at to is ErrConflict.
func Salvage(ctx context.Context, from, to string, o SalvageOptions) (salvaged Salvaged, err error) {
	defer func() { err = Heard(ctx, err) }()
	for _, path := range []string{from, to} {
		if err := onlyFile(path, "salvage", "bring back the server's own backup; pg_amcheck tells what "+
			"is damaged"); err != nil {
			return Salvaged{}, err
		}
	}
	options := Options{}.withDefaults()
	var callbacks callback.Callbacks
	var problems []Problem
	got, err := sqlite.Salvage(ctx, from, to, options.sqlite(&callbacks), o.KeepSuspect,
		func(path string) (err error) {
			problems, err = o.finish(ctx, path)
			return err
		})
	s := Salvaged{
		Schema: got.Schema, Pages: got.Pages, Damaged: got.Damaged, Notes: got.Notes,
		Problems: problems,
	}
	for _, t := range got.Tables {
		s.Tables = append(s.Tables, SalvagedTable(t))
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return s, &Error{Op: "salvage", Entity: "file", ID: from, Code: code(err), Hint: hintOf(err), Err: err}
	}
	return s, nil
}

func (o SalvageOptions) finish(ctx context.Context, path string) (problems []Problem, err error) {
	d, err := Open(ctx, path, Options{MustExist: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if o.Finish == nil {
		return d.Check(ctx)
	}
	return o.Finish(ctx, d)
}

// A Problem is one thing that Check found.
type Problem struct {
	Check  string // "integrity", "schema", "versions", "foreign keys", "checksums", or the name of an invariant
	Detail string
	Table  string // the table, where it is about one row
	Row    string // that row's key; several columns of a key stand in brackets
}

// An Examination is the result of Examine.
type Examination struct {
	Problems  []Problem
	Checksums []ChecksumCount // of each table with checksums that has rows
}

// A ChecksumCount is how many rows of a table have a checksum. A row has none if it was last
// written before checksums existed, or if the user set the column to NULL to declare its contents
// right.
type ChecksumCount struct {
	Table   string
	Rows    int64
	Without int64
}

// Check reads the whole file and reports at most 100 problems of each kind: SQLite's
// integrity_check; tables, indexes, triggers and views of the schema that are missing or differ
// from what this program creates; foreign keys; the invariants of the schema; and rows that don't
// match their checksum. No problems and no error mean that the file is whole.
//
// It reads on a connection of its own, so that it delays no Read, and ends with ctx's cause. Each
// part is a snapshot of its own; the longest is the integrity check's, which reads every page.
// Checksums are compared 1,000 rows at a time.
func (d *DB) Check(ctx context.Context) ([]Problem, error) {
	x, err := d.Examine(ctx)
	return x.Problems, err
}

// Examine is Check, and also reports how much of the file has checksums.
func (d *DB) Examine(ctx context.Context) (x Examination, err error) {
	defer func() { err = Heard(ctx, err) }()
	if err := d.ready("check"); err != nil {
		return x, err
	}
	checked, err := d.engine.Check(ctx)
	for _, p := range checked.Problems {
		x.Problems = append(x.Problems, Problem(p))
	}
	for _, c := range checked.Checksums {
		x.Checksums = append(x.Checksums, ChecksumCount(c))
	}
	return x, wrap("check", err)
}

// Repair recreates views, triggers and indexes of the schema that are missing or differ from what
// this program creates, and schema texts with a few flipped bits. It returns the names of what it
// recreated, including what Open repaired. It changes no row. Open repairs schema texts by itself
// if it can't parse the schema; a user's own view that can't be parsed becomes one whose only row
// is its text. A read-only handle repairs nothing.
func (d *DB) Repair(ctx context.Context) ([]string, error) {
	if err := d.ready("repair"); err != nil {
		return nil, err
	}
	done, err := d.engine.Repair(ctx)
	return done, wrap("repair", err)
}
