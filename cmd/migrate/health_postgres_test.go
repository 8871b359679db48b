//go:build postgres

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/test/dbtest"
)

// answered is what a command says with --json.
func answered[T any](t *testing.T, args ...string) (answer T, notes string) {
	t.Helper()
	var out, notesOut bytes.Buffer
	if exit := run(append(args, "--json"), strings.NewReader(""), &out, &notesOut); exit != 0 {
		t.Fatalf("%v: exit %d: %s", args, exit, notesOut.String())
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer, notesOut.String()
}

// What each look of doctor says of a server where all is well, and where nothing is.
func TestPostgres_DoctorNamesWhatStopsServer(t *testing.T) {
	address := dbtest.PostgresAlone(t, "../..")
	answered[upAnswer](t, "--db", address, "up")
	state := func() map[string]doctorFinding {
		answer, _ := answered[doctorAnswer](t, "--db", address, "doctor")
		found := map[string]doctorFinding{}
		for _, f := range answer.Findings {
			found[f.Check] = f
		}
		return found
	}
	looks := []string{"locks", "transactions", "connections", "standbys", "transaction ids", "WAL"}
	found := state()
	for _, look := range append(slices.Clone(looks), "archive") {
		if f := found[look]; f.State != stateFine || f.Todo != "" || f.Detail == "" {
			t.Errorf("%s of a new server: %+v", look, f)
		}
	}

	wait, transaction, left, ids, kept := longWait, longTransaction, fewLeft, manyIDs, muchKeptWAL
	defer func() {
		longWait, longTransaction, fewLeft, manyIDs, muchKeptWAL = wait, transaction, left, ids,
			kept
	}()
	longWait, longTransaction, fewLeft, manyIDs, muchKeptWAL = 0, 0, 1, 0, -1
	dbtest.PostgresExec(t, address, "SELECT pg_create_physical_replication_slot('of_nobody', true)")
	dbtest.PostgresExec(t, address, "ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'")
	dbtest.PostgresExec(t, address, "SELECT pg_reload_conf()")
	dbtest.AwaitPostgres(t, address, "the server has heard of it",
		"SELECT current_setting('synchronous_standby_names') = 'elsewhere'")
	holder, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(t.Context()) //nolint:errcheck // the server is stopped next
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock(1)").ReadAll(); err != nil {
		t.Fatal(err)
	}
	waiter, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer waiter.Close(t.Context()) //nolint:errcheck // the server is stopped next
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(t.Context(), "SELECT pg_advisory_xact_lock(1)").ReadAll()
		waited <- err
	}()
	dbtest.AwaitPostgresWaits(t, address, 1)
	found = state()
	for _, look := range looks {
		if f := found[look]; f.State != stateTodo || f.Todo == "" || f.Detail == "" {
			t.Errorf("%s: %+v", look, f)
		}
	}
	answer, _ := answered[healthAnswer](t, "--db", address, "health")
	switch h := answer.Server; {
	case h == nil:
		t.Error("health says nothing of the server")
	case len(h.Waits) != 1 || len(h.Waits[0].HeldBy) != 1 || h.Waits[0].HeldBy[0].PID != int(holder.PID()) ||
		h.Waits[0].Session.PID != int(waiter.PID()),
		h.Oldest == nil || h.Oldest.PID != int(holder.PID()), h.Awaited != "elsewhere" || h.AwaitedThere,
		len(h.Slots) != 1:
		t.Errorf("health says %+v", h)
	}
	printsWhatIsDocumented(t, address)
	var people, notes bytes.Buffer
	if exit := run([]string{"--db", address, "health"}, strings.NewReader(""), &people, &notes); exit != 0 {
		t.Errorf("exit %d: %s", exit, notes.String())
	}
	for _, said := range []string{
		"waits for", "oldest transaction", "elsewhere: none of them is there",
		"of_nobody keeps", "transaction ids",
	} {
		if !strings.Contains(people.String(), said) {
			t.Errorf("health does not say %q:\n%s", said, people.String())
		}
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// --wait bounds each wait for a lock, and the command says for whom it waits.
func TestPostgresUpSaysForWhomItWaits(t *testing.T) {
	saysForWhomItWaits(t, dbtest.Postgres(t), "CREATE SCHEMA selvedge", "up")
}

func TestPostgresAnImportSaysForWhomItWaits(t *testing.T) {
	address, dir := dbtest.Postgres(t), t.TempDir()
	if exit, _, stderr := call(t, "--db", address, "up"); exit != 0 {
		t.Fatal(stderr)
	}
	trace := `{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2026-05-01T08:00:00Z"}`
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "runs/a"), 0o700),
		os.WriteFile(filepath.Join(dir, "runs/a/r.jsonl"), []byte(trace+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	saysForWhomItWaits(t, address, "LOCK TABLE selvedge.run_records IN EXCLUSIVE MODE", "import", "runs", dir)
	if exit, stdout, stderr := call(t, "--db", address, "runs", "list"); exit != 0 ||
		!strings.Contains(stdout, "in_progress") {
		t.Errorf("exit %d: %s%s", exit, stdout, stderr)
	}
}

// saysForWhomItWaits runs a command beside a transaction that has done what is in its way, and ends
// that when the command has said so.
func saysForWhomItWaits(t *testing.T, address, done string, words ...string) {
	t.Helper()
	holder, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(t.Context()) //nolint:errcheck // the database is dropped next
	if _, err := holder.Exec(t.Context(), "BEGIN; "+done).ReadAll(); err != nil {
		t.Fatal(err)
	}
	notes := &telling{said: make(chan struct{}, 1)}
	ended := make(chan int, 1)
	go func() {
		ended <- run(append([]string{"--db", address, "--wait", "1h"}, words...), strings.NewReader(""),
			&bytes.Buffer{}, notes)
	}()
	select {
	case <-notes.said:
	case exit := <-ended:
		t.Fatalf("exit %d: %s", exit, notes.text.String())
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if exit := <-ended; exit != 0 || !strings.Contains(notes.text.String(),
		fmt.Sprintf("waiting for a lock of process %d ", holder.PID())) ||
		!strings.Contains(notes.text.String(), "idle in transaction") {
		t.Errorf("exit %d: %s", exit, notes.text.String())
	}
}

// telling keeps what is written, and says when the first was.
type telling struct {
	text bytes.Buffer
	said chan struct{}
}

func (w *telling) Write(text []byte) (int, error) {
	n, err := w.text.Write(text)
	select {
	case w.said <- struct{}{}:
	default:
	}
	return n, err
}

// printsWhatIsDocumented holds health to the page, on a server of which there is all but a standby to tell.
func printsWhatIsDocumented(t *testing.T, address string) {
	value, _ := answered[any](t, "--db", address, "health")
	documented, seen := documentedOf(healthAnswer{}), map[string]any{}
	collect(seen, value, "", documented)
	for path, kind := range documented {
		if wrong, ok := seen[path]; wrong != nil || !ok && !strings.HasPrefix(path, "server.standbys[]") {
			t.Errorf("health prints %s as %v, which is documented as %s", path, wrong, kind)
		}
	}
	for path := range seen {
		if _, ok := documented[path]; !ok {
			t.Errorf("health prints %s, which is not documented", path)
		}
	}
}
