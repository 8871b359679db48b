package maintenance

import (
	"context"

	"selvedge/db"
	"selvedge/internal/engine"
)

// An Examination is the result of Examine.
type Examination struct {
	Problems  []db.Problem
	Checksums []ChecksumCount // of each table with checksums that has rows
}

// A ChecksumCount is how many rows of a table have a checksum. A row has none if it was last
// written before checksums existed, or if the user set the column to NULL to declare its contents
// right.
type ChecksumCount struct {
	Table   string `json:"table"`   // its name
	Rows    int64  `json:"rows"`    // all of its rows
	Without int64  `json:"without"` // those that have no checksum
}

// examine is db.DB.Check, and also reports how much of the file has checksums.
func examine(ctx context.Context, d *db.DB) (x Examination, err error) {
	return x, on(ctx, d, "check", func(e engine.Engine) error {
		checked, err := e.Check(ctx)
		for _, p := range checked.Problems {
			x.Problems = append(x.Problems, db.Problem(p))
		}
		for _, c := range checked.Checksums {
			x.Checksums = append(x.Checksums, ChecksumCount(c))
		}
		return err
	})
}

// Repair recreates views, triggers and indexes of the schema that are missing or differ from what
// this program creates, and schema texts with a few flipped bits. It returns the names of what it
// recreated, including what db.Open repaired. It changes no row. db.Open repairs schema texts by itself
// if it can't parse the schema; a user's own view that can't be parsed becomes one whose only row
// is its text. A read-only handle repairs nothing.
func Repair(ctx context.Context, d *db.DB) (made []string, err error) {
	return made, on(ctx, d, "repair", func(e engine.Engine) (err error) {
		made, err = e.Repair(ctx)
		return err
	})
}
