package dbtest

import (
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/migrations"
)

// CheckSums computes the checksums of a table again, and counts its rows.
func CheckSums(t testing.TB, d *db.DB, table string) (rows int) {
	t.Helper()
	for _, sum := range migrations.Checksums {
		if sum.Table != table {
			continue
		}
		err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
			for row, err := range rx.Query("SELECT " +
				strings.Join(append([]string{sum.Column}, sum.Covered...), ", ") + " FROM " + table) {
				if err != nil {
					return err
				}
				values, targets := make([]any, 1+len(sum.Covered)), make([]any, 1+len(sum.Covered))
				for i := range values {
					targets[i] = &values[i]
				}
				if err := row.Scan(targets...); err != nil {
					return err
				}
				if rows++; values[0] != txn.Checksum(values[1:]...) {
					t.Errorf("%s: the checksum of %v is %v", table, values[1:], values[0])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows
}
