package maintenance

import (
	"context"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/runs"
)

// A Report says store by store what Salvage brought and what is lost.
type Report struct {
	db.Salvaged
	Stores []StoreReport
}

// A StoreReport sums up the tables of one store.
type StoreReport struct {
	// runs, live, agents, checkpoints, workers, imports, reservations, file, or user for tables of the
	// user's own
	Store string `json:"store"`
	Taken int64  `json:"taken"` // rows in the new file
	// rows that were read and have no place there; they are in its table salvage_leftovers, with the reason
	Aside int64 `json:"aside"`
	// rows that could not be read; null: nobody can count them, since a page that may have held some is
	// damaged
	Lost   *int64             `json:"lost"`
	Tables []db.SalvagedTable `json:"-"`
}

// Salvage is db.Salvage, and says store by store what became of it. It has every run say what is
// left of its trace, so that Check finds nothing in the new file, and a salvage of that changes
// nothing. o.Finish must be nil.
func Salvage(ctx context.Context, from, to string, o db.SalvageOptions) (report Report, err error) {
	if o.Finish != nil {
		return report, txn.Invalid("leave Finish nil", "maintenance.Salvage finishes the file itself")
	}
	var notes []string
	o.Finish = func(ctx context.Context, d *db.DB) ([]db.Problem, error) {
		var err error
		if notes, err = runs.Restate(ctx, d); err == nil {
			err = checkpoints.Restate(ctx, d)
		}
		if err != nil {
			return nil, err
		}
		x, err := Check(ctx, d)
		return x.Problems, err
	}
	got, err := db.Salvage(ctx, from, to, o)
	report = Report{got, byStore(got.Tables, func(t db.SalvagedTable) string { return t.Table },
		func(s *StoreReport, name string, t db.SalvagedTable) {
			if len(s.Tables) == 0 {
				s.Lost = new(int64)
			}
			*s = StoreReport{name, s.Taken + t.Taken, s.Aside + t.Aside, sum(s.Lost, t.Lost), append(s.Tables, t)}
		})}
	report.Notes = append(report.Notes, notes...)
	return report, err
}

// sum adds two counts, of which nil is one that nobody knows.
func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}
