//go:build postgres

package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// holding gives a session that has a transaction open, in which it has run statements.
func holding(t *testing.T, address, statements string) *pgconn.PgConn {
	t.Helper()
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = "ann's psql"
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := conn.Exec(t.Context(), "BEGIN; "+statements).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestPostgresAWriteThatWaitsTellsForWhom(t *testing.T) {
	postgres.WithWaitsReported(t)
	address := dbtest.Postgres(t)
	e := open(t, address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	exec(t, e, "INSERT INTO kept VALUES (1)")
	holder := holding(t, address, "UPDATE selvedge.kept SET n = 2")
	told := make(chan []engine.Session, 1)
	ctx := engine.WithWaits(t.Context(), func(holders []engine.Session) { told <- holders })
	done := make(chan error, 1)
	go func() {
		done <- e.WriteLocked(ctx, "test", func(x engine.Tx) error {
			_, err := x.Exec("UPDATE kept SET n = 3", nil)
			return err
		}).Err
	}()
	by := dbtest.Receive(t, "whom it waits for", told)
	if len(by) != 1 || by[0].PID != int(holder.PID()) || by[0].Program != "ann's psql" ||
		by[0].State != "idle in transaction" || by[0].For <= 0 {
		t.Errorf("it waits for %+v, and process %d has the row", by, holder.PID())
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPostgresAMigrationThatWaitsTellsForWhom(t *testing.T) {
	postgres.WithWaitsReported(t)
	address := dbtest.Postgres(t)
	holder := holding(t, address, "CREATE SCHEMA selvedge")
	told := make(chan []engine.Session, 1)
	ctx := engine.WithWaits(t.Context(), func(holders []engine.Session) { told <- holders })
	set, done := config(t), make(chan error, 1)
	set.LockTimeout = 1000 * time.Hour // more than the server can be told
	go func() {
		m, err := postgres.Closed{Address: address, Config: set}.Migrate(ctx)
		if last := migrations.Steps[len(migrations.Steps)-1].Version; err == nil && m.To != last {
			err = fmt.Errorf("it went to schema %d, not %d", m.To, last)
		}
		done <- err
	}()
	select {
	case by := <-told:
		if len(by) != 1 || by[0].PID != int(holder.PID()) {
			t.Errorf("it waits for %+v, and process %d has the schema", by, holder.PID())
		}
	case err := <-done:
		t.Fatal("it ended: ", err)
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A user without rights on what others do still learns who is in whose way.
func TestPostgresHealthSaysWhoWaitsForWhom(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	role := fmt.Sprintf("plain_%s", get[string](t, e, "SELECT current_database()"))
	dbtest.PostgresExec(t, address, fmt.Sprintf("CREATE ROLE %s LOGIN; GRANT USAGE ON SCHEMA selvedge TO "+
		"%[1]s; GRANT SELECT ON ALL TABLES IN SCHEMA selvedge TO %[1]s", role))
	defer dbtest.PostgresExec(t, address, fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %[1]s", role))
	set := config(t)
	set.ReadOnly = true
	plain, err := postgres.Open(t.Context(), address+"&user="+role, set)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close() //nolint:errcheck // it only looks
	holder := holding(t, address, "SELECT pg_advisory_xact_lock(1)")
	waiter := holding(t, address, "SELECT 1")
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(context.WithoutCancel(t.Context()), "SELECT pg_advisory_xact_lock(1)").ReadAll()
		waited <- err
	}()
	for name, look := range map[string]*postgres.Engine{"its owner": e, "who sees little": plain} {
		t.Run(name, func(t *testing.T) {
			var h engine.Health
			dbtest.Await(t, "somebody waits", func() bool {
				if h, err = look.Health(t.Context()); err != nil {
					t.Fatal(err)
				}
				return len(h.Server.Waits) > 0
			})
			w := h.Server.Waits[0]
			if w.PID != int(waiter.PID()) || len(w.HeldBy) != 1 || w.HeldBy[0].PID != int(holder.PID()) ||
				w.HeldBy[0].Program != "ann's psql" {
				t.Errorf("%d waits for %d; it says %+v", waiter.PID(), holder.PID(), w)
			}
			if seesAll := look == e; h.Server.SeesAll != seesAll ||
				seesAll != (h.Server.Oldest.PID == int(holder.PID())) || seesAll != (h.WALBytes > 0) {
				t.Errorf("it sees all: %v, its WAL has %d bytes, the oldest is %+v", h.Server.SeesAll, h.WALBytes,
					h.Server.Oldest)
			}
			if h.Server.Connections < 3 || h.Server.MostConnections <= h.Server.Connections || h.Server.IDsSpent <= 0 {
				t.Errorf("it says %+v", h.Server)
			}
		})
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
