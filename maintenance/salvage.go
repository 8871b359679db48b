package maintenance

import (
	"context"
	"errors"
	"slices"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/runs"
)

// SalvageOptions selects what Salvage keeps. The zero value keeps only intact rows.
type SalvageOptions struct {
	// KeepSuspect also keeps rows with a checksum that does not match, without that checksum.
	KeepSuspect bool
}

// Salvaged is the result of Salvage.
type Salvaged struct {
	Schema   int64 // schema version of the damaged file; the new one has this program's
	Pages    int   // of the damaged file
	Damaged  int   // unreadable pages of these that lead to others, or hold rows
	Tables   []SalvagedTable
	Notes    []string        // what else is lost, for people
	Problems []db.Problem    // that Check finds in the new file
	Stores   []StoreSalvaged // by name
}

// A SalvagedTable counts the rows of a table.
type SalvagedTable = engine.SalvagedTable

// A StoreSalvaged sums up the tables of one store.
type StoreSalvaged struct {
	// runs, live, agents, checkpoints, workers, state, imports, usage, reservations, file, or user for tables
	// of the user's own
	Store string `json:"store"`
	Taken int64  `json:"taken"` // rows in the new file
	// rows that were read and have no place there; they are in its table salvage_leftovers, with the
	// reason
	Aside int64 `json:"aside"`
	// rows that could not be read; null: nobody can count them, since a page that may have held some
	// is damaged
	Lost   *int64          `json:"lost"`
	Tables []SalvagedTable `json:"-"`
}

// Salvage reads the damaged file at from page by page, with the commits in its WAL, and copies
// every intact row into a new file at to. Damage to one page costs no rows of other pages: neither
// indexes nor interior pages are needed. Rows that refer to lost rows, break a constraint, or fail
// their checksum go into the table salvage_leftovers of the new file as SQL text, each with its
// reason. A run with a lost row is recreated from its trace or events, if those remain. Counts are
// corrected, and gaps closed where positions must be dense. The new file has a new generation, so
// older cursors have expired.
//
// The row of every run is made to agree with the rest of its trace, so that Check finds no problem
// in the new file, and a salvage of that file changes nothing.
//
// Salvage does not change the damaged file, which must not be open anywhere (db.ErrBusy). An existing
// file at to is db.ErrConflict.
func Salvage(ctx context.Context, from, to string, o SalvageOptions) (s Salvaged, err error) {
	const hint = "bring back the server's own backup; pg_amcheck tells what is damaged"
	if err := inFile(ctx, to, db.Options{}, "salvage", hint,
		func(engine.ClosedFile) error { return nil }); err != nil {
		return s, err
	}
	var got engine.Salvaged
	var failed error
	var notes []string
	err = inFile(ctx, from, db.Options{}, "salvage", hint, func(f engine.ClosedFile) error {
		got, failed = f.Salvage(ctx, to, o.KeepSuspect, func(path string) (err error) {
			notes, s.Problems, err = finish(ctx, path)
			return err
		})
		return nil
	})
	s.Schema, s.Pages, s.Damaged, s.Tables = got.Schema, got.Pages, got.Damaged, got.Tables
	s.Notes = slices.Concat(got.Notes, notes)
	s.Stores = byStore(s.Tables, func(t SalvagedTable) string { return t.Table },
		func(s *StoreSalvaged, name string, t SalvagedTable) {
			if len(s.Tables) == 0 {
				s.Lost = new(int64)
			}
			*s = StoreSalvaged{name, s.Taken + t.Taken, s.Aside + t.Aside, sum(s.Lost, t.Lost), append(s.Tables, t)}
		})
	return s, errors.Join(err, db.About(ended(ctx, failed), "salvage", "file", from, nil))
}

// finish derives the rows of runs and checkpoints in the new file from their traces and documents,
// and checks the whole file.
func finish(ctx context.Context, path string) (notes []string, problems []db.Problem, err error) {
	d, err := db.Open(ctx, path, db.Options{MustExist: true})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if notes, err = runs.Restate(ctx, d); err == nil {
		err = checkpoints.Restate(ctx, d)
	}
	if err == nil {
		err = restateUsage(ctx, d)
	}
	if err != nil {
		return nil, nil, err
	}
	x, err := Check(ctx, d)
	return notes, x.Problems, err
}

// sum adds two counts; nil is an unknown count.
func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}
