//go:build postgres

package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/legacy"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// What a file takes for a name a server takes, finds and lists alike, and a move brings it there and back.
func TestPostgres_NamesOfAnyLength(t *testing.T) {
	ctx := t.Context()
	random := rand.New(rand.NewPCG(21, 4000))
	long := func(bytes int) string {
		const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
		text := make([]byte, bytes)
		for i := range text {
			text[i] = letters[random.IntN(len(letters))]
		}
		return string(text)
	}
	// Texts that differ behind what an index has of them, and nothing.
	same := long(100_000)
	threads := []string{same + "a", same + "b", long(4000), "", "é" + strings.Repeat("\U0010ffff", 300)}
	run := runs.RunRef{AgentID: long(txn.MaxID), RunID: long(txn.MaxID)}
	keys := []string{long(txn.MaxID), long(txn.MaxID)}
	tree := deep(t, long)

	file, server := dbtest.Path(t), dbtest.Postgres(t)
	for _, path := range []string{file, server} {
		d := dbtest.OpenAt(t, path, db.Options{})
		if err := called(ctx, d, threads, run, keys, tree); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		return
	}
	moved, back := dbtest.Postgres(t), dbtest.Path(t)
	if _, err := maintenance.Move(ctx, file, moved, db.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Move(ctx, moved, back, db.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Move(ctx, server, dbtest.Path(t), db.Options{}); err != nil {
		t.Fatal(err)
	}
}

// deep is a tree of runs whose path is nearly as long as a path may be.
func deep(t *testing.T, long func(int) string) string {
	t.Helper()
	root := t.TempDir()
	for len(root) < 3500 {
		root = filepath.Join(root, long(200))
	}
	folder := filepath.Join(root, "runs", "agent-a")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const line = `{"kind":"started","run_id":"run-1","agent_id":"agent-a","intent":"deep","started_at":"2026-05-20T12:00:00Z"}` + "\n"
	if err := os.WriteFile(filepath.Join(folder, "run-1.jsonl"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func called(ctx context.Context, d *db.DB, threads []string, run runs.RunRef, keys []string,
	tree string,
) error {
	var errs []error
	expect := func(what string, ok bool, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		} else if !ok {
			errs = append(errs, fmt.Errorf("%s: no", what))
		}
	}
	registry := agents.NewRegistry(d, agents.Options{})
	for i, thread := range threads {
		id := fmt.Sprintf("agent-%d", i)
		build := func(string) (agents.Entry, error) {
			return agents.Entry{
				SessionID: id, Thread: thread, Status: agents.Active, StartedAt: theTime, BaseState: "b",
				ClientInstanceID: &thread, HeddleSessionID: &thread, NativeActorKey: &thread, NativeInstanceKey: &thread,
				Path: &thread,
			}, nil
		}
		out, err := registry.TryReserveThread(ctx, thread, build)
		expect("reserve "+id, err == nil && out.Reserved != nil, err)
		out, err = registry.TryReserveThread(ctx, thread, build)
		expect("the second finds "+id, err == nil && out.LiveOwner != nil && out.LiveOwner.Thread == thread, err)
	}
	for i, thread := range threads {
		id := fmt.Sprintf("agent-%d", i)
		held, ok, err := registry.Reservation(ctx, thread)
		expect("the reservation of "+id, ok && held.Holder.SessionID == id && held.Thread == thread, err)
		for name, find := range map[string]func(context.Context, string) (agents.Entry, bool, error){
			"client": registry.FindActiveByClientInstanceID, "session": registry.FindActiveByHeddleSessionID,
			"actor": registry.FindActiveByNativeActorKey,
		} {
			e, ok, err := find(ctx, thread)
			expect(name+" of "+id, ok && e.SessionID == id && e.Thread == thread && *e.Path == thread, err)
		}
		page, err := registry.Page(ctx, agents.Filter{Thread: &thread}, db.At{})
		expect("the list of "+id, err == nil && len(page.Items) == 1 && page.Items[0].SessionID == id, err)
	}

	// A repeat under a key of a run that is gone does nothing, also where two runs of the name had it.
	store := runs.NewStore(d, runs.Options{})
	appended := func(key, intent string) error {
		return second(store.Append(ctx, runs.Batch{
			AgentID: run.AgentID, RunID: run.RunID, Key: key,
			Records: []runs.Record{runs.Started{
				RunID: run.RunID, AgentID: run.AgentID, Intent: intent,
				StartedAt: theTime,
			}},
		}))
	}
	for range 2 {
		begun, err := store.Begin(ctx, runs.Started{
			RunID: run.RunID, AgentID: run.AgentID, Intent: "again",
			StartedAt: theTime,
		}, runs.BeginOptions{})
		expect("begin a run", true, err)
		expect("let go of the run", true, begun.Release(ctx))
		for _, key := range keys {
			expect("append with a key", true, second(store.Append(ctx,
				runs.Batch{AgentID: run.AgentID, RunID: run.RunID, Key: key, Records: []runs.Record{aTurn()}})))
		}
		again, err := store.Resume(ctx, run)
		if err != nil {
			return err
		}
		expect("let go of it again", true, again.Release(ctx))
		expect("remove the run", true, store.Delete(ctx, run))
		_, err = store.Get(ctx, run)
		expect("the run is gone", errors.Is(err, db.ErrNotFound), nil)
	}
	expect("a late repeat with other records is told", errors.Is(appended(keys[1], "late"), db.ErrConflict), nil)

	for again := range 2 {
		report, err := legacy.Import(ctx, d, legacy.Runs, tree, legacy.Options{})
		expect("import a deep tree", err == nil && report.Files.New == int64(1-again) &&
			report.Files.Already == int64(again), err)
	}
	report, err := legacy.Verify(ctx, d, legacy.Runs, tree, legacy.Options{})
	expect("verify it", err == nil && len(report.Differs) == 0, err)
	journal, err := legacy.Journal(ctx, d, "", db.At{})
	expect("the journal names the tree",
		err == nil && len(journal.Items) == 2 && strings.HasPrefix(journal.Items[0].Source, tree), err)
	return errors.Join(errs...)
}

func aTurn() runs.Turn {
	return runs.Turn{VerifierVerdict: runs.VerdictPass, Output: []byte("{}")}
}

// More rows of a key that an index has only the beginning of than are read at once, of which many
// begin alike.
func TestPostgresACheckReadsEveryRowOfALongKey(t *testing.T) {
	address := dbtest.Postgres(t)
	d := dbtest.OpenAt(t, address, db.Options{})
	dbtest.PostgresExec(t, address, `SET search_path = selvedge;
INSERT INTO import_sources (scope, kind, root, first_at) VALUES (1, 'runs', '/r', 1);
INSERT INTO import_files (source, path, state, entity_group, entity_id, last_sequence, size, consumed,
	prefix_sha256, open_line, records, imported_at, checksum)
SELECT (SELECT max(id) FROM import_sources), convert_to(repeat('x', 180 + (n % 3) * 20) || n, 'UTF8'),
	'refused', '', '', 0, 0, 0, sha256(''), 0, '', 1, CASE WHEN n % 50 = 0 THEN 1 END
FROM generate_series(1, 2500) AS n`)
	problems, err := d.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for _, p := range problems {
		if p.Check == "checksums" && p.Table == "import_files" {
			wrong++
		}
	}
	if wrong != 50 {
		t.Errorf("%d of the 50 rows with a wrong checksum are told", wrong)
	}
}
