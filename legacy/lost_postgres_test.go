//go:build postgres

package legacy

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// On a server a process that was silent for long counts as dead, and another may import its folder.
// What it has read until then is old.
func TestPostgres_ReplacedImportWritesNoMore(t *testing.T) {
	address := dbtest.Postgres(t)
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			d, err := db.Open(t.Context(), address, db.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			files := manyFiles(kind, 12)
			dir, scope := madeBelow(t, files), string(kind)
			ledger := func() (rows []string) {
				for _, row := range dbtest.PostgresExec(t, address, fmt.Sprintf(sqlLedgerOf, scope)) {
					rows = append(rows, string(row[0]))
				}
				return rows
			}
			var want []string
			told := 0
			_, err = Import(t.Context(), d, kind, dir,
				Options{Scope: scope, BatchBytes: 1, Progress: func(p Progress) {
					if told++; told != 4 {
						return
					}
					// The old program removes most of it, and another process sees that.
					for _, path := range slices.Sorted(maps.Keys(files))[len(files)/4:] {
						if err := os.Remove(filepath.Join(dir, path)); err != nil {
							t.Error(err)
						}
					}
					dbtest.PostgresExec(t, address, fmt.Sprintf(sqlTimesUp, os.Getpid()))
					dbtest.Start(t, "import", address, dir, string(kind), scope).Wait()
					want = ledger()
				}})
			if !errors.Is(err, db.ErrLeaseLost) || len(want) == 0 {
				t.Errorf("it ends with %v, and the other one had %d files", err, len(want))
			}
			if diff := firstDifference(want, ledger()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
