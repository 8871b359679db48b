//go:build postgres

package dbtest

import (
	"context"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"selvedge/db"
)

// OnPostgres runs tests of a package again, each with databases of a server instead of the files
// that Path and Open return. The address has selvedge.hosts=one, as a file has one machine: so
// pids show which process is dead.
func OnPostgres(t *testing.T, tests ...func(*testing.T)) {
	t.Helper()
	beginSuite(t)
	if checks := flag.Lookup("rapid.checks"); checks != nil { // of models, which open a database each
		was := checks.Value.String()
		t.Cleanup(func() { _ = checks.Value.Set(was) })
		if err := checks.Value.Set("25"); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range tests {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndexByte(name, '.')+1:], test)
	}
}

// beginSuite has the test's files be databases of a server from here on.
func beginSuite(t *testing.T) {
	suites.Store(t.Name(), &suite{t: t, inUse: map[string][]string{}})
	t.Cleanup(func() { suites.Delete(t.Name()) })
	onServer = onPostgres{}
}

// A suite is one call of OnPostgres. A database that a test has left is emptied for the next one,
// which takes a tenth of the time that a new one takes.
type suite struct {
	t *testing.T

	mu    sync.Mutex
	inUse map[string][]string // addresses, by the test that has them
	free  []string
}

var suites sync.Map // by the name of the test that runs them

func suiteOf(t testing.TB) *suite {
	name, _, _ := strings.Cut(t.Name(), "/")
	s, _ := suites.Load(name)
	found, _ := s.(*suite)
	return found
}

// onPostgres is what differs in a test that OnPostgres runs.
type onPostgres struct{}

func (onPostgres) runs(t testing.TB) bool { return suiteOf(t) != nil }

func (onPostgres) path(t testing.TB) string {
	t.Helper()
	s, test := suiteOf(t), testOf(t)
	address := s.take()
	// One that was emptied is another file.
	PostgresExec(t, address, fmt.Sprintf("UPDATE selvedge.selvedge_file SET generation = %d",
		1+postgresDatabases.Add(1)<<20))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse[test] = append(s.inUse[test], address)
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inUse[test] = slices.DeleteFunc(s.inUse[test], func(one string) bool { return one == address })
		if emptied(t, address) {
			s.free = append(s.free, address)
		}
	})
	return address
}

// take returns a database that is up to date and empty.
func (s *suite) take() string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		address := s.free[last]
		s.free = s.free[:last]
		return address
	}
	address := Postgres(s.t) + "&selvedge.hosts=one"
	d, err := db.Open(context.Background(), address, db.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		s.t.Fatal(err)
	}
	PostgresExec(s.t, address, `CREATE TABLE public.relations AS SELECT oid FROM pg_class
		WHERE relnamespace = 'selvedge'::regnamespace`)
	return address
}

// emptied restores a database to its initial state, and reports whether it did. It does not if
// the test changed its schema.
func emptied(t testing.TB, address string) bool {
	t.Helper()
	rows := PostgresExec(t, address, `
SET search_path = selvedge;
SET session_replication_role = replica; -- neither triggers nor foreign keys
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database()
	AND pid <> pg_backend_pid();
DO $$
DECLARE name TEXT;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'selvedge'
    AND tablename NOT IN ('selvedge_file', 'goose_db_version') LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
    FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'selvedge'
    AND last_value IS NOT NULL LOOP
        EXECUTE format('ALTER SEQUENCE %I RESTART', name);
    END LOOP;
    FOR name IN SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'selvedge_search_') LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
END $$;
INSERT INTO scopes (name, checksum) VALUES ('', 737421180);
SELECT coalesce((SELECT array_agg(oid ORDER BY oid) FROM pg_class
	WHERE relnamespace = 'selvedge'::regnamespace) = (SELECT array_agg(oid ORDER BY oid) FROM public.relations),
	false)`)
	return string(rows[0][0]) == "t"
}

// testOf returns the name of the test that OnPostgres runs of which t is a part.
func testOf(t testing.TB) string { return strings.Join(strings.SplitN(t.Name(), "/", 3)[:2], "/") }

// killed has the databases of the test take a process for dead.
func (onPostgres) killed(t testing.TB, pid int) {
	t.Helper()
	s := suiteOf(t)
	s.mu.Lock()
	addresses := slices.Clone(s.inUse[testOf(t)])
	s.mu.Unlock()
	for _, address := range addresses {
		PostgresExec(t, address, fmt.Sprintf(
			"UPDATE selvedge.owner_beats SET until = 1 WHERE owner IN (SELECT id FROM selvedge.owners WHERE "+
				"pid = %d)", pid))
	}
}

// again makes the server refuse the first commit of a change with 40001. The sequence also counts
// undone commits.
func (onPostgres) again(t testing.TB, d *db.DB, call func()) {
	t.Helper()
	PostgresExec(t, d.Path(), `
SET search_path = selvedge;
CREATE SEQUENCE commits;
CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('selvedge.commits') = 1 THEN
        RAISE EXCEPTION 'refused once' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NULL;
END $$;
DO $$
DECLARE name TEXT;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'selvedge'
    AND tablename NOT IN ('sessions', 'owners', 'owner_beats') LOOP
        EXECUTE format('CREATE CONSTRAINT TRIGGER refuse_once
            AFTER INSERT OR UPDATE OR DELETE ON %I DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION refuse_once()', name);
    END LOOP;
END $$`)
	call()
	if rows := PostgresExec(t, d.Path(), `SELECT last_value FROM selvedge.commits`); string(rows[0][0]) == "1" {
		t.Error("the server refused nothing, or what it refused was not run again")
	}
	PostgresExec(t, d.Path(), `DROP FUNCTION selvedge.refuse_once CASCADE; DROP SEQUENCE selvedge.commits`)
}
