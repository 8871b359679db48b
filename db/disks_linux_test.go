package db_test

import (
	"path/filepath"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// The root of every disk of one kind has the same inode number.
func TestRootOpen_SameNameOnTwoDisks(t *testing.T) {
	for range 2 {
		path := filepath.Join(dbtest.SmallDisk(t, "size=8m"), "x.db")
		insertScope(t, dbtest.OpenAt(t, path, db.Options{}), "a disk")
	}
}
