//go:build postgres

package failover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

const (
	// nextStep changes tables that every writer uses, and an index that they read.
	nextStep = `-- +goose Up
ALTER TABLE runs ADD COLUMN next BIGINT;
ALTER TABLE live_runs ADD COLUMN next BIGINT;
CREATE INDEX next_runs ON runs (next);
DROP INDEX agents_by_thread;
CREATE INDEX agents_by_thread ON agents (scope, thread, session_id) WHERE status = 'active';
-- +goose Down
`
	// stepsEnd is where the steps named in migrations.go end.
	stepsEnd = "\n})\n\nfunc withRest("
)

// nextProgram builds the command line as the next release would be, with one more step, and the oldest
// programs that may read and write its schema.
func nextProgram(t *testing.T, text string, minReader, minWriter int64) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, last := t.TempDir(), maintenance.SchemaVersion()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	step := write("step.sql", text)
	replace := map[string]string{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		replace[filepath.Join(root, "migrations", dialect, fmt.Sprintf("%05d_next.sql", last+1))] = step
	}
	path := filepath.Join(root, "migrations", "migrations.go")
	steps, err := os.ReadFile(path)
	const line = "\n\t{Version: %d, MinReader: %d, MinWriter: %d},"
	named := fmt.Sprintf(line+line, last, 1, last, last+1, minReader, minWriter)
	if err != nil || !bytes.Contains(steps, []byte(stepsEnd)) {
		t.Fatalf("the steps do not end as they did: %v", err)
	}
	replace[path] = write("migrations.go", strings.Replace(string(steps), stepsEnd, named+stepsEnd, 1))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "migrate")
	build := exec.Command("go", "build", "-buildvcs=false", "-overlay", write("overlay.json", string(overlay)),
		"-o", program, "./cmd/migrate")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the next program: %v\n%s", err, out)
	}
	return program
}

// upgraded is how `up` of the next program ended.
type upgraded struct {
	stderr string
	err    error
}

// up runs `up` of the next program.
func up(t *testing.T, program, address string, wait time.Duration) upgraded {
	t.Helper()
	c := exec.Command(program, "--db", address, "--wait", wait.String(), "up")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	return upgraded{err: c.Run(), stderr: stderr.String()}
}

// written is a trial with three processes that make every kind of call, and one that follows.
func written(t *testing.T) *storm {
	t.Helper()
	s := &storm{trial: &trial{cluster: &cluster{t: t, address: dbtest.Postgres(t)}, notes: &notes{t: t}}}
	for n := range 3 {
		s.names = append(s.names, fmt.Sprintf("w%d", n))
	}
	s.before = dbtest.OpenAt(t, s.address, db.Options{})
	s.prepare(t, s.before, s.names...)
	for range 3 {
		s.comes()
	}
	s.notes.listen("follower", dbtest.Start(t, "follow", s.address))
	s.goesOn(time.Time{})
	s.fault = time.Now()
	return s
}

// noErrors: no call of a program has failed.
func (s *storm) noErrors() {
	s.t.Helper()
	for _, n := range s.notes.all() {
		switch n.kind {
		case failed, unknown, strange:
			s.t.Errorf("%s: %s %s %s: %s", n.process, n.kind, n.lane, n.text, n.rest)
		}
	}
}

// rounds is how many times a short test of upgrades is made: once in CI, and fifty times at night.
func rounds() int {
	n, err := strconv.Atoi(os.Getenv("SELVEDGE_UPGRADES"))
	if err != nil {
		return 1
	}
	return n
}

// A step that excludes nobody is taken while old programs write and follow, and while a reader stays:
// that one it waits for, and nobody waits behind it.
func TestPostgresUpgrade_BesideOldProgramsLosesNothing(t *testing.T) {
	program := nextProgram(t, nextStep, 1, maintenance.SchemaVersion())
	for range rounds() {
		s := written(t)
		ctx := t.Context()
		reader, err := pgconn.Connect(ctx, s.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Exec(ctx, "BEGIN; SELECT count(*) FROM selvedge.runs").ReadAll(); err != nil {
			t.Fatal(err)
		}
		done := make(chan upgraded, 1)
		go func() { done <- up(t, program, s.address, 5*time.Minute) }()
		other, err := pgconn.Connect(ctx, s.address)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			<-time.After(100 * time.Millisecond)
			if _, err := other.Exec(ctx, "SET statement_timeout = '10s'; SELECT count(*) FROM selvedge.runs").
				ReadAll(); err != nil {
				t.Errorf("a read beside an upgrade that waits: %v", err)
			}
		}
		select {
		case got := <-done:
			t.Fatalf("it did not wait for the reader: %+v", got)
		default:
		}
		for _, conn := range []*pgconn.PgConn{reader, other} {
			if err := conn.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		if got := <-done; got.err != nil {
			t.Errorf("up: %v\n%s", got.err, got.stderr)
		}
		s.goesOn(time.Now())
		s.over()
		judgeThings(t, readThings(t, s.before), s.notes.all())
		s.noErrors()
	}
}

// A step that excludes old programs waits for those that are connected, and names them. One that
// comes back afterwards is refused.
func TestPostgresUpgrade_ExcludedProgramsAreFenced(t *testing.T) {
	program := nextProgram(t, nextStep, 1, maintenance.SchemaVersion()+1)
	for range rounds() {
		s := written(t)
		got := up(t, program, s.address, 3*time.Second)
		want := fmt.Sprintf("schema %d excludes programs that have the database open: process ",
			maintenance.SchemaVersion()+1)
		if got.err == nil || !strings.Contains(got.stderr, want) {
			t.Errorf("beside programs that it excludes: %v\n%s", got.err, got.stderr)
		}
		s.goesOn(time.Now())
		s.over()
		judgeThings(t, readThings(t, s.before), s.notes.all())
		s.noErrors()

		cutAll(t, s.address)
		ancient, err := pgconn.Connect(t.Context(), s.address+"&application_name=selvedge")
		if err != nil {
			t.Fatal(err)
		}
		got = up(t, program, s.address, 3*time.Second)
		want = fmt.Sprintf("process %d ", ancient.PID())
		if got.err == nil || !strings.Contains(got.stderr, want) {
			t.Errorf("beside a program from before the registry: %v\n%s", got.err, got.stderr)
		}
		if err := ancient.Close(t.Context()); err != nil {
			t.Error(err)
		}

		done := make(chan upgraded, 1)
		go func() { done <- up(t, program, s.address, 5*time.Minute) }()
		for over := false; !over; {
			select {
			case got := <-done:
				if over = true; got.err != nil {
					t.Fatalf("up: %v\n%s", got.err, got.stderr)
				}
			case <-time.After(100 * time.Millisecond):
				cutAll(t, s.address) // those of the handles of this process, which come back when they are used
			}
		}
		for name, write := range map[string]func(context.Context, string, func(*db.Tx) error) error{
			"Write": s.before.Write, "WriteLocked": s.before.WriteLocked,
		} {
			err := write(t.Context(), "too old", func(tx *db.Tx) error {
				_, err := tx.Store().Scope("a scope of an old program")
				return err
			})
			if !errors.Is(err, db.ErrSchemaTooNew) {
				t.Errorf("%s of a program that is excluded: %v", name, err)
			}
		}
	}
}

// A reader that connects while a step is taken that excludes it waits for the end of the step, and is
// refused. So is one whose connections were cut before the step.
func TestPostgresUpgrade_ExcludedReadersAreRefused(t *testing.T) {
	next := maintenance.SchemaVersion() + 1
	program := nextProgram(t, "-- +goose Up\nSELECT pg_sleep(2);\n", next, next)
	address := dbtest.Postgres(t)
	if err := dbtest.OpenAt(t, address, db.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	read := func(d *db.DB) error {
		return d.Read(t.Context(), "too old", func(rx *db.Rx) error {
			_, err := rx.Find(new(int), "SELECT 1 FROM runs")
			return err
		})
	}
	cut := dbtest.OpenAt(t, address, db.Options{ReadOnly: true})
	if err := read(cut); err != nil {
		t.Fatal(err)
	}
	done := make(chan upgraded, 1)
	go func() { done <- up(t, program, address, 5*time.Minute) }()
	for underWay := false; !underWay; {
		select {
		case got := <-done:
			t.Fatalf("it did not wait for a reader that it excludes: %+v", got)
		case <-time.After(50 * time.Millisecond):
		}
		cutAll(t, address)
		underWay = len(dbtest.PostgresExec(t, address, `SELECT FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%'`)) > 0
	}
	if _, err := db.Open(t.Context(), address, db.Options{ReadOnly: true}); !errors.Is(err, db.ErrSchemaTooNew) {
		t.Errorf("a reader that connects during the step: %v", err)
	}
	if got := <-done; got.err != nil {
		t.Fatalf("up: %v\n%s", got.err, got.stderr)
	}
	if err := read(cut); !errors.Is(err, db.ErrSchemaTooNew) {
		t.Errorf("a reader whose connections were cut: %v", err)
	}
}

// cutAll ends all connections to the database but those of an upgrade.
func cutAll(t *testing.T, address string) {
	t.Helper()
	dbtest.PostgresExec(t, address, fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 2 AND mode = 'ShareLock' AND objid::bigint / 2 = %d
AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
		maintenance.SchemaVersion()))
}
