//go:build postgres

package docs_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// fenced returns the blocks of a page in a language.
func fenced(t *testing.T, page, language string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```").FindAllSubmatch(text, -1) {
		list = append(list, string(block[1]))
	}
	return list
}

// judged finds, in the comment of a query, its name and the value above which to act.
var judged = regexp.MustCompile(`^-- ([^,;]+).*?; act above (?:owner_ttl, here )?(\d+)`)

// A measure is what a query of the page answers first, and when to act.
type measure struct{ value, limit float64 }

func measures(t *testing.T, address string) map[string]measure {
	t.Helper()
	found := map[string]measure{}
	for _, query := range fenced(t, "operating.md", "sql") {
		m := judged.FindStringSubmatch(query)
		if m == nil {
			continue
		}
		var of measure
		var err, wrong error
		if rows := dbtest.PostgresExec(t, address, query); len(rows) > 0 {
			of.value, wrong = strconv.ParseFloat(string(rows[0][0]), 64)
		}
		if of.limit, err = strconv.ParseFloat(m[2], 64); err != nil || wrong != nil {
			t.Fatalf("%s: %v, %v", m[1], err, wrong)
		}
		found[m[1]] = of
	}
	return found
}

// Each query of the page finds nothing on a server where all is well, and what it looks for where that is.
func TestPostgres_OperatorsQueriesWatchServer(t *testing.T) {
	address := dbtest.PostgresAlone(t, "..")
	dbtest.PostgresShell(t, "..", address, `
psql -c "ALTER SYSTEM SET archive_mode = on" -c "ALTER SYSTEM SET archive_command = 'true'" \
	-c "ALTER SYSTEM SET autovacuum = off" -c "CREATE ROLE report LOGIN" -c "CREATE ROLE tenant LOGIN"
pg_ctl restart -m fast -l server.log`)
	d := dbtest.OpenAt(t, address, db.Options{})
	dbtest.PostgresExec(t, address, `CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
GRANT USAGE ON SCHEMA selvedge TO monitor; GRANT SELECT ON ALL TABLES IN SCHEMA selvedge TO monitor`)
	monitor := strings.Replace(address, "selvedge@", "monitor@", 1)
	if _, err := d.Reserve(t.Context(), "port", "1", db.ReserveOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, script := range fenced(t, "operating.md", "sql") {
		dbtest.PostgresExec(t, address, script)
	}
	dbtest.PostgresExec(t, address,
		"UPDATE selvedge.owner_beats SET until = selvedge.server_nanos() + 50000000000")
	healthy := measures(t, monitor)
	if len(healthy) != 13 {
		t.Errorf("the page has %d queries", len(healthy))
	}
	for name, of := range healthy {
		if of.value > of.limit {
			t.Errorf("%s is %v on a server where all is well", name, of.value)
		}
	}

	session := func(script string) *pgconn.PgConn {
		t.Helper()
		conn, err := pgconn.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), script).ReadAll(); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	version := maintenance.SchemaVersion()
	holder := session(fmt.Sprintf(`BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_advisory_xact_lock(1);
SELECT pg_advisory_lock_shared('selvedge.selvedge_file'::regclass::oid::int, %d)`, 2*(version-1)))
	defer holder.Close(t.Context()) //nolint:errcheck // the server is stopped next
	waiter := session("SELECT 1")
	defer waiter.Close(t.Context()) //nolint:errcheck // the server is stopped next
	go func() { _, _ = waiter.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)").ReadAll() }()
	dbtest.AwaitPostgresWaits(t, address, 1)
	dbtest.PostgresExec(t, address, `
INSERT INTO selvedge.run_leavings SELECT generate_series(1, 20000);
DELETE FROM selvedge.run_leavings;
INSERT INTO selvedge.owners (token, pid, program, registered_at)
	SELECT uuid_send(gen_random_uuid()), n, 'dead', 1 FROM generate_series(1, 102) AS n;
INSERT INTO selvedge.owner_beats SELECT id, CASE pid WHEN 1 THEN selvedge.server_nanos() + 3600000000000
	ELSE 1 END FROM selvedge.owners WHERE program = 'dead';
SELECT pg_create_physical_replication_slot('of_nobody', true)`)
	for _, script := range []string{
		"ALTER SYSTEM SET archive_command = 'false'", "ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'",
		"SELECT pg_reload_conf()", "SELECT pg_switch_wal()",
	} {
		dbtest.PostgresExec(t, address, script)
	}
	dbtest.AwaitPostgres(t, address, "the server has heard of it",
		"SELECT current_setting('synchronous_standby_names') = 'elsewhere'")
	commits := session("SELECT 1")
	defer commits.Close(t.Context()) //nolint:errcheck // the server is stopped next
	go func() { _, _ = commits.Exec(t.Context(), "CREATE TABLE public.t ()").ReadAll() }()
	over := map[string]bool{
		"Failures of the archive since it last took a file": true,
		"Dead rows": true,
		"Commits that wait for a standby while none streams":          true,
		"Dead owners that are not forgotten":                          true,
		"Seconds for which an owner lives without another heartbeat":  true,
		"Schema versions that the oldest connected program is behind": true,
	}
	for name := range healthy {
		dbtest.Await(t, name+" is seen", func() bool {
			of := measures(t, monitor)[name]
			return of.value > 0 && (!over[name] || of.value > of.limit)
		})
		delete(over, name)
	}
	if len(over) > 0 {
		t.Errorf("the page has no query for %v", over)
	}
}

// A drill of the page's restore to a point in time, beside a program that nobody has ended.
func TestPostgres_RestoreToPointKeepsWhatWasBefore(t *testing.T) {
	address := dbtest.PostgresAlone(t, "..")
	var point string
	scripts := fenced(t, "operating.md", "bash")
	if len(scripts) != 3 {
		t.Fatalf("the page has %d scripts", len(scripts))
	}
	run := func(script string) {
		t.Helper()
		dbtest.PostgresShell(t, "..", address,
			`export ARCHIVE="$PWD/archive" BACKUP="$PWD/backup" POINT="`+point+"\"\n"+script)
	}
	var fence string
	for _, script := range fenced(t, "operating.md", "sql") {
		if strings.Contains(script, "setval") {
			fence = script
		}
	}
	run(scripts[0])

	old := dbtest.OpenAt(t, address, db.Options{})
	store := runs.NewStore(old, runs.Options{})
	turn := func(s *runs.Store, id string, n int) {
		t.Helper()
		if err := s.AppendTurns(t.Context(), "a", id, []runs.Turn{{Index: uint64(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(s *runs.Store, id string) {
		t.Helper()
		if err := s.WriteStarted(t.Context(), runs.Started{RunID: id, AgentID: "a", Intent: "work"}); err != nil {
			t.Fatal(err)
		}
		turn(s, id, 0)
	}
	reserve := func(d *db.DB, name string, terms db.LeaseTerms) *db.Lease {
		t.Helper()
		lease, err := d.Reserve(t.Context(), "port", name, db.ReserveOptions{LeaseTerms: terms})
		if err != nil {
			t.Fatalf("reserve %s: %v", name, err)
		}
		return lease
	}
	start(store, "before the backup")
	run(scripts[1])
	start(store, "after the backup")
	before := reserve(old, "before", db.LeaseTerms{})
	rows := func() string {
		t.Helper()
		var all strings.Builder
		for _, table := range dbtest.PostgresExec(t, address, `SELECT tablename FROM pg_tables
			WHERE schemaname = 'selvedge' AND tablename NOT IN ('sessions', 'owner_beats', 'selvedge_file')
			ORDER BY 1`) {
			for _, row := range dbtest.PostgresExec(t, address,
				fmt.Sprintf("SELECT t::text FROM selvedge.%s AS t ORDER BY 1", table[0])) {
				fmt.Fprintf(&all, "%s %s\n", table[0], row[0])
			}
		}
		return all.String()
	}
	kept := rows()
	point = string(dbtest.PostgresExec(t, address, "SELECT clock_timestamp()")[0][0])

	turn(store, "before the backup", 1)
	start(store, "after the point")
	followed := runs.RunRef{AgentID: "a", RunID: "before the backup"}
	cursor, err := store.CursorBefore(t.Context(), followed, 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := reserve(old, "lost", db.LeaseTerms{TTL: time.Hour, Detached: true})
	last := int64(0)
	for n := range 40 { // a sequence may be 32 ahead of what was drawn
		last = reserve(old, fmt.Sprint(n), db.LeaseTerms{}).Epoch()
	}

	run(scripts[2])
	if got := rows(); got != kept {
		t.Errorf("after the restore there is\n%s\nand at the point there was\n%s", got, kept)
	}
	dbtest.PostgresExec(t, address, fence)
	d := dbtest.OpenAt(t, address, db.Options{})
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("the check says %v, %v", x.Problems, err)
	}
	store = runs.NewStore(d, runs.Options{})
	list, err := store.ListRuns(t.Context(), "a")
	if err != nil || len(list) != 2 {
		t.Errorf("the runs are %v, %v", list, err)
	}
	turn(store, "before the backup", 1)
	turn(store, "before the backup", 2)
	start(store, "after the restore")
	for _, err := range store.Follow(t.Context(), followed, cursor) {
		if !errors.Is(err, db.ErrCursorExpired) {
			t.Errorf("a cursor of before gets %v", err)
		}
		break
	}

	// The owner is one of this process, which asks no server about it.
	dbtest.Await(t, "the owner of before is dead", func() bool {
		held, ok, err := d.Reservation(t.Context(), "", "port", "before")
		if err != nil || !ok {
			t.Fatalf("the reservation of before is lost: %v", err)
		}
		return held.State == "dead"
	})
	for _, lease := range []*db.Lease{before, lost} {
		taken := reserve(d, lease.Name(), db.LeaseTerms{})
		if taken.Epoch() <= last {
			t.Errorf("epoch %d is given again: %d were drawn", taken.Epoch(), last)
		}
		if err := lease.Hold(t.Context(), "write on", func(*db.Tx) error { return nil }); !errors.Is(err,
			db.ErrLeaseLost) {
			t.Errorf("a program of before writes under its lease: %v", err)
		}
		if err := taken.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("after new writes the check says %v, %v", x.Problems, err)
	}
}
