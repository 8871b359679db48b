//go:build postgres

package db_test

import (
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// The other one lives on and does not renew: its machine's clock is of no use here, the server's is.
func TestPostgres_OtherHostsLeaseExpires(t *testing.T) {
	for name, under := range elsewhere(t) {
		t.Run(name, func(t *testing.T) {
			address := dbtest.Postgres(t)
			d := dbtest.OpenAt(t, address, db.Options{})
			c, refused := startCrew(t, under, address)
			if refused != "" {
				t.Fatal(refused)
			}
			const ttl = 200 * time.Millisecond
			asked := time.Now()
			held := c.must(order{Op: "reserve", Name: "a", TTL: ttl})
			untilTaken(t, d, "a")
			if took := time.Since(asked); took < ttl {
				t.Errorf("it ended after %v", took)
			}
			if r := c.do(order{Op: "hold", Name: "a", Epoch: held.Epoch}); !r.Lost {
				t.Errorf("hold under the old epoch: %+v", r)
			}
			c.Wait()
		})
	}
}
