package tree

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"selvedge/db"
)

// Derived is the result of importing a tree into an empty file.
type Derived struct {
	tree    *Tree
	db      *db.DB
	scratch *scratch // that holds the file; nil if the file is in memory
	covered coverage
	said    map[string]int64
}

// derivedInMemory is the size of the largest tree that is derived in memory, in bytes.
const derivedInMemory = 16 << 20

// Derive imports the tree under dir, with the code of [Import], into a database of its own: in
// memory, or for a large tree in a folder beside the file at path. Close removes the folder. If a
// killed process left one, the next Derive removes it.
func Derive(ctx context.Context, l Layout, dir string, o Options, path string) (*Derived, error) {
	t, err := openTree(nil, l, dir, o)
	x := &Derived{tree: t}
	if err == nil {
		err = inTurn(
			func() error { return t.cover(ctx, &x.covered) },
			func() error { return x.open(ctx, path) },
			func() error { return t.importAll(ctx) },
		)
	}
	if err == nil {
		for _, path := range x.covered.settle(t.Report) {
			t.Report.Differ(path, "was written to while it was verified: verify it again")
		}
	}
	if err != nil {
		err = errors.Join(err, x.Close())
	}
	return x, err
}

func (x *Derived) open(ctx context.Context, path string) (err error) {
	place := ":memory:"
	if x.covered.bytes > derivedInMemory {
		if x.scratch, err = newScratch(path); err == nil {
			place = filepath.Join(x.scratch.path, scratchFile)
		}
	}
	if err == nil {
		x.db, err = db.Open(ctx, place, db.Options{Synchronous: db.SyncNormal})
		x.tree.DB = x.db
	}
	if err != nil {
		err = fmt.Errorf("make a file for what the tree gives: %w", err)
	}
	return err
}

// Close removes the file.
func (x *Derived) Close() (err error) {
	if x.db != nil {
		err = x.db.Close()
	}
	if x.scratch != nil {
		err = errors.Join(err, x.scratch.remove())
	}
	return err
}
