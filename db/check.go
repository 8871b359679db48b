package db

import "context"

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

// A ChecksumCount says how many rows of a table have a checksum. A row has none when it was not written since there are
// checksums, or when its user has said, by setting the column to NULL, that what it holds now is right.
type ChecksumCount struct {
	Table   string
	Rows    int64
	Without int64
}

// Check reads the whole file and reports what is wrong with it, at most 100 problems of each kind: SQLite's
// integrity_check; tables, indexes, triggers and views of the schema that are missing or are not as this program makes them;
// foreign keys; the invariants of the schema; and rows whose columns are not what their checksum says. No problems and no
// error mean that the file is whole.
//
// It reads on a connection of its own, so that it keeps no Read waiting, and ends with ctx's cause. Each look is a snapshot of
// its own: the longest is the integrity check's, which reads every page. Rows are compared with their checksums 1,000 at a
// time.
func (d *DB) Check(ctx context.Context) ([]Problem, error) {
	x, err := d.Examine(ctx)
	return x.Problems, err
}

// Examine is Check, and says besides how much of the file has checksums.
func (d *DB) Examine(ctx context.Context) (x Examination, err error) {
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

// Repair makes views, triggers and indexes of the schema again that are missing or are not as this program makes them, and
// texts of the schema of which a few bits are not what they were; it names what it made, and what Open did. It changes no
// row. Open does the second by itself where it finds that the schema can't be parsed, and makes of a view of the user's own
// that can't be parsed any more one whose only row is its text. A handle that is read-only repairs nothing.
func (d *DB) Repair(ctx context.Context) ([]string, error) {
	if err := d.ready("repair"); err != nil {
		return nil, err
	}
	done, err := d.engine.Repair(ctx)
	return done, wrap("repair", err)
}
