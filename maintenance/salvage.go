package maintenance

import (
	"context"
	"slices"
	"strings"

	"selvedge/db"
)

// A Report says store by store what Salvage brought and what is lost.
type Report struct {
	db.Salvaged
	Stores []StoreReport
}

// A StoreReport sums up the tables of one store.
type StoreReport struct {
	Store  string
	Taken  int64 // rows in the new file
	Aside  int64 // rows that were read and have no place there: see salvage_leftovers
	Lost   int64 // rows that could not be read, on pages that could; those on damaged pages are counted by nobody
	Tables []db.SalvagedTable
}

// Salvage is db.Salvage, and says store by store what became of it.
func Salvage(ctx context.Context, from, to string, o db.SalvageOptions) (Report, error) {
	got, err := db.Salvage(ctx, from, to, o)
	report := Report{Salvaged: got}
	for _, t := range got.Tables {
		name := storeOf(t.Table)
		i := slices.IndexFunc(report.Stores, func(s StoreReport) bool { return s.Store == name })
		if i < 0 {
			i = len(report.Stores)
			report.Stores = append(report.Stores, StoreReport{Store: name})
		}
		s := &report.Stores[i]
		s.Taken, s.Aside, s.Lost = s.Taken+t.Taken, s.Aside+t.Aside, s.Lost+t.Lost
		s.Tables = append(s.Tables, t)
	}
	slices.SortFunc(report.Stores, func(a, b StoreReport) int { return strings.Compare(a.Store, b.Store) })
	return report, err
}
