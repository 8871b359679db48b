package documents

import (
	"selvedge/db"
	"selvedge/internal/tree"
)

// Things is the document that a file became.
func (l Layout) Things(_ *db.Rx, _ tree.Source, row *tree.Row) ([]tree.Thing, error) {
	return tree.OneThing(row), nil
}

// Beside gives what the kind reads beside its documents.
func (l Layout) Beside(t *tree.Tree) ([]tree.Kept, error) {
	if k, ok := l.Kind.(tree.Beside); ok {
		return k.Beside(t)
	}
	return nil, nil
}

// Find looks a document up.
func (l Layout) Find(rx *db.Rx, scope string, e tree.Entity) (tree.Thing, bool, error) {
	row, ok, err := l.Store(nil, scope).Row(rx, e)
	return tree.Thing{Entity: e, Row: row}, ok, err
}
