package maintenance

import (
	"context"

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
	return MoveReport{moved, byStore(moved.Tables, func(t db.MovedTable) string { return t.Table },
		func(s *StoreMoved, name string, t db.MovedTable) {
			*s = StoreMoved{name, s.Read + t.Read, s.New + t.New, s.Already + t.Already, s.Differs + t.Differs}
		})}, err
}
