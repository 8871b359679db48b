//go:build postgres

package storetest_test

import (
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/storetest"
)

func TestPostgresPassesTheSuite(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) *db.DB { return dbtest.OpenAt(t, dbtest.Postgres(t), db.Options{}) }, storetest.Shared{
		Again: func(t *testing.T, d *db.DB) *db.DB { return dbtest.OpenAt(t, d.Path(), db.Options{}) },
		Process: func(t *testing.T, d *db.DB) storetest.Process {
			return dbtest.Start(t, "serve", d.Path()+"&selvedge.owner_ttl=3s")
		},
	})
}
