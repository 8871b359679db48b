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
	// KeepSuspect also takes rows whose checksum says that something in them is another than it was. They come without a
	// checksum.
	KeepSuspect bool
}

// Salvaged is what Salvage brought.
type Salvaged struct {
	Schema   int64 // schema version of the damaged file; the new one has this program's
	Pages    int   // of the damaged file
	Damaged  int   // of them pages that lead to others, or hold rows, and can't be read
	Tables   []SalvagedTable
	Notes    []string  // what else is lost, for people
	Problems []Problem // what Check says of the new file
}

// SalvagedTable is what became of the rows of a table. Rows on damaged pages are counted by nobody.
type SalvagedTable struct {
	Table   string
	Taken   int64 // rows in the new file
	Suspect int64 // rows with another checksum, or with values of other types, than they should have
	Aside   int64 // rows that were read and have no place in the new file: they are in its table salvage_leftovers, with the reason
	Lost    int64 // rows that could not be read, on pages that could
}

// Salvage reads the damaged file at from page by page, with the commits in its WAL, and brings every row that is whole into a
// new file at to. Damage on one page takes no other page's rows along: neither indexes nor the inner pages of trees are
// needed. Rows that refer to others which are lost, that break a constraint, or whose checksum is another, lie in the table
// salvage_leftovers of the new file as SQL text, each with its reason. Where a run is lost and its trace, or its events, are
// not, it is made anew from them. Counts are made to fit, and places that may have no gaps are closed up. The new file has a
// generation of its own, so that cursors have expired.
//
// It changes nothing in the damaged file, which nobody may have open (ErrBusy). A file at to is ErrConflict.
func Salvage(ctx context.Context, from, to string, o SalvageOptions) (Salvaged, error) {
	for _, path := range []string{from, to} {
		if err := onlyFile(path, "salvage", "bring back the server's own backup; pg_amcheck tells what is damaged"); err != nil {
			return Salvaged{}, err
		}
	}
	options := Options{}.withDefaults()
	var callbacks callback.Callbacks
	got, err := sqlite.Salvage(ctx, from, to, options.sqlite(&callbacks), o.KeepSuspect)
	s := Salvaged{Schema: got.Schema, Pages: got.Pages, Damaged: got.Damaged, Notes: got.Notes}
	for _, t := range got.Tables {
		s.Tables = append(s.Tables, SalvagedTable(t))
	}
	for _, p := range got.Checked.Problems {
		s.Problems = append(s.Problems, Problem(p))
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return s, &Error{Op: "salvage", Entity: "file", ID: from, Code: code(err), Hint: hintOf(err), Err: err}
	}
	return s, nil
}
