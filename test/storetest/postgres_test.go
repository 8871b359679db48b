//go:build postgres

package storetest_test

import (
	"fmt"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/test/storetest"
)

func TestPostgresPassesTheSuite(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) *db.DB {
		return dbtest.OpenAt(t, dbtest.Postgres(t),
			db.Options{})
	}, storetest.Shared{
		Again: func(t *testing.T, d *db.DB) *db.DB { return dbtest.OpenAt(t, d.Path(), db.Options{}) },
		Process: func(t *testing.T, d *db.DB) storetest.Process {
			return &onServer{dbtest.Start(t, "serve", d.Path()), t, d.Path()}
		},
	})
}

// A process onServer counts as dead as soon as it is killed, as if its time had passed.
type onServer struct {
	*dbtest.Process
	t       *testing.T
	address string
}

func (p *onServer) Kill() {
	p.Process.Kill()
	dbtest.PostgresExec(p.t, p.address, fmt.Sprintf("UPDATE owner_beats SET until = 1 WHERE owner IN (SELECT "+
		"id FROM owners WHERE pid = %d)", p.Pid()))
}
