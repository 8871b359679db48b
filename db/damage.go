package db

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/sqlite"
)

// SalvageOptions says what Salvage takes. The zero value takes what is whole.
type SalvageOptions struct {
	// KeepSuspect also takes rows whose checksum says that something in them is another than it was.
	// They come without a checksum.
	KeepSuspect bool
	// Finish is called with the new file, open, before that gets its name; the new file is given up if
	// it fails. It says what is wrong with the file still. nil is DB.Check. maintenance.Salvage has
	// one that knows the stores.
	Finish func(context.Context, *DB) ([]Problem, error)
}

// Salvaged is what Salvage brought.
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
	// rows that were read and have no place in the new file: they are in its table salvage_leftovers,
	// with the reason
	Aside int64
	// rows that could not be read; nil: nobody can count them, since a page that may have held some is damaged
	Lost *int64
}

// Salvage reads the damaged file at from page by page, with the commits in its WAL, and brings
// every row that is whole into a new file at to. Damage on one page takes no other page's rows
// along: neither indexes nor the inner pages of trees are needed. Rows that refer to others which
// are lost, that break a constraint, or whose checksum is another, lie in the table
// salvage_leftovers of the new file as SQL text, each with its reason. Where a run is lost and its
// trace, or its events, are not, it is made anew from them. Counts are made to fit, and places that
// may have no gaps are closed up. The new file has a generation of its own, so that cursors have
// expired.
//
// The new file passes Check. What runs say of their traces only the stores can tell:
// maintenance.Salvage makes that fit too, and is the one to call unless the stores are your own.
//
// It changes nothing in the damaged file, which nobody may have open (ErrBusy). A file at to is ErrConflict.
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
	s := Salvaged{Schema: got.Schema, Pages: got.Pages, Damaged: got.Damaged, Notes: got.Notes,
		Problems: problems}
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

// An Examination is what Examine found and looked at.
type Examination struct {
	Problems  []Problem
	Checksums []ChecksumCount // of each table with checksums that has rows
}

// A ChecksumCount says how many rows of a table have a checksum. A row has none when it was not
// written since there are checksums, or when its user has said, by setting the column to NULL, that
// what it holds now is right.
type ChecksumCount struct {
	Table   string
	Rows    int64
	Without int64
}

// Check reads the whole file and reports what is wrong with it, at most 100 problems of each kind:
// SQLite's integrity_check; tables, indexes, triggers and views of the schema that are missing or
// are not as this program makes them; foreign keys; the invariants of the schema; and rows whose
// columns are not what their checksum says. No problems and no error mean that the file is whole.
//
// It reads on a connection of its own, so that it keeps no Read waiting, and ends with ctx's cause.
// Each look is a snapshot of its own: the longest is the integrity check's, which reads every page.
// Rows are compared with their checksums 1,000 at a time.
func (d *DB) Check(ctx context.Context) ([]Problem, error) {
	x, err := d.Examine(ctx)
	return x.Problems, err
}

// Examine is Check, and says besides how much of the file has checksums.
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

// Repair makes views, triggers and indexes of the schema again that are missing or are not as this
// program makes them, and texts of the schema of which a few bits are not what they were; it names
// what it made, and what Open did. It changes no row. Open does the second by itself where it finds
// that the schema can't be parsed, and makes of a view of the user's own that can't be parsed any
// more one whose only row is its text. A handle that is read-only repairs nothing.
func (d *DB) Repair(ctx context.Context) ([]string, error) {
	if err := d.ready("repair"); err != nil {
		return nil, err
	}
	done, err := d.engine.Repair(ctx)
	return done, wrap("repair", err)
}
