package maintenance

import (
	"context"
	"slices"
	"strings"

	"selvedge/db"
)

// A MoveReport says what Move brought, table by table and store by store.
type MoveReport struct {
	db.Moved
	Stores []StoreMoved // by name; none where the move was complete before
}

// A StoreMoved sums up the tables of one store.
type StoreMoved struct {
	Store   string // as Report names them: runs, live, imports, file …
	Read    int64  // rows of the source
	New     int64  // of them those that this call brought
	Already int64  // and those that an earlier one had brought
	Differs int64  // rows that are not the same in both
}

// Move is db.Move, and says store by store what became of it. db.AbandonMove undoes one that is not complete.
func Move(ctx context.Context, from, to string, o db.Options) (MoveReport, error) {
	moved, err := db.Move(ctx, from, to, o)
	report := MoveReport{Moved: moved}
	for _, t := range moved.Tables {
		name := storeOf(t.Table)
		i := slices.IndexFunc(report.Stores, func(s StoreMoved) bool { return s.Store == name })
		if i < 0 {
			i = len(report.Stores)
			report.Stores = append(report.Stores, StoreMoved{Store: name})
		}
		s := &report.Stores[i]
		s.Read, s.New, s.Already, s.Differs = s.Read+t.Read, s.New+t.New, s.Already+t.Already, s.Differs+t.Differs
	}
	slices.SortFunc(report.Stores, func(a, b StoreMoved) int { return strings.Compare(a.Store, b.Store) })
	return report, err
}

// storeOf is the store that a table belongs to, or user for one of the user's own.
func storeOf(table string) string {
	name := "user"
	for _, s := range slices.Concat(stores, others) {
		if slices.ContainsFunc(s.tables, func(begin string) bool { return strings.HasPrefix(table, begin) }) {
			name = s.name
		}
	}
	return name
}
