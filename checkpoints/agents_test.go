package checkpoints_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/legacy"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// ofAgents returns the stores of no agent, of a and of b, in one scope.
func ofAgents(t testing.TB, d *db.DB) (unnamed, a, b *checkpoints.Store) {
	t.Helper()
	of := func(agent string) *checkpoints.Store {
		return checkpoints.NewStore(d, checkpoints.Options{Agent: agent})
	}
	return of(""), of("a"), of("b")
}

func asks(t testing.TB, s *checkpoints.Store, runID, prompt string) {
	t.Helper()
	p := sample(runID)
	p.Prompt = prompt
	check(t, s.Save(ctx, p))
}

func TestAgents_OneRunIDHoldsTwoCheckpoints(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	unnamed, a, b := ofAgents(t, d)
	asks(t, a, "r", "a?")
	asks(t, b, "r", "b?")
	asks(t, b, "r", "b again?")
	for s, want := range map[*checkpoints.Store]string{a: "a?", b: "b again?"} {
		p, ok, err := s.Load(ctx, "r")
		if err != nil || !ok || p.Prompt != want {
			t.Errorf("the agent that asks %s waits with %+v, %t, %v", want, p, ok, err)
		}
		wantList(t, s, "r")
		if got := contents(t, s); got != "r:paused " {
			t.Errorf("the agent that asks %s has %s", want, got)
		}
	}
	if got := contents(t, unnamed); got != "r:paused r:paused " {
		t.Errorf("there is %s", got)
	}
	found, err := unnamed.Find(ctx, "r", 0)
	check(t, err)
	want := []checkpoints.Ref{
		{AgentID: "a", RunID: "r", State: checkpoints.Paused},
		{AgentID: "b", RunID: "r", State: checkpoints.Paused},
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %+v", found)
	}
	first, err := unnamed.Page(ctx, checkpoints.Filter{}, db.At{Limit: 1})
	check(t, err)
	second, err := unnamed.Page(ctx, checkpoints.Filter{}, db.At{Limit: 1, After: first.Next})
	check(t, err)
	if len(second.Items) != 1 || second.Items[0].AgentID != "b" || second.Next != "" {
		t.Errorf("the second page is %+v", second)
	}

	claim := mustClaim(t, a, "r")
	if p, err := mustClaim(t, b, "r").Paused(); err != nil || p.Prompt != "b again?" {
		t.Errorf("b claims %+v, %v", p, err)
	}
	check(t, claim.Decide(ctx, checkpoints.Decision{Decision: "approved"}))
	wantRecovered(t, a, 0)
	wantRecovered(t, b, 1)
	past := history(t, unnamed, checkpoints.HistoryFilter{RunID: "r"})
	if len(past) != 1 || past[0].AgentID != "a" || len(history(t, b, checkpoints.HistoryFilter{})) > 0 {
		t.Errorf("the history is %+v", past)
	}
	check(t, unnamed.Delete(ctx, checkpoints.Ref{AgentID: "b", RunID: "r"}))
	if got := contents(t, unnamed); got != "" {
		t.Errorf("there is still %s", got)
	}
	if x, err := maintenance.Check(ctx, d); err != nil || len(x.Problems) > 0 {
		t.Errorf("the check finds %+v, %v", x.Problems, err)
	}
}

func TestAgents_UnnamedCallNamesFirst(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	unnamed, a, b := ofAgents(t, d)
	asks(t, a, "r", "a?")
	asks(t, b, "r", "b?")
	for name, err := range map[string]error{
		"save":   unnamed.Save(ctx, sample("r")),
		"load":   second(unnamed.LoadDocument(ctx, "r")),
		"claim":  second(unnamed.Claim(ctx, "r")),
		"end":    unnamed.Complete(ctx, "r"),
		"remove": unnamed.Remove(ctx, "r"),
		"delete": unnamed.Delete(ctx, checkpoints.Ref{RunID: "r"}),
		"pin":    unnamed.Pin(ctx, "r"),
	} {
		if !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), `the agent "a"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, ok, err := a.Load(ctx, "r"); err != nil || !ok || p.Prompt != "a?" {
		t.Errorf("the first waits with %+v, %t, %v", p, ok, err)
	}

	// An agent with a name does not get in the way of one without.
	save(t, unnamed, "old")
	save(t, a, "old")
	save(t, unnamed, "old")
	mustClaim(t, unnamed, "old")
	for _, id := range []string{"\xff", "a\x00", strings.Repeat("a", 2000)} {
		s := checkpoints.NewStore(d, checkpoints.Options{Agent: id})
		if err := s.Save(ctx, sample("r")); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("agent %q: %v", id, err)
		}
	}
}

func second[T any](_ T, _ bool, err error) error { return err }

func TestAgents_ExportNamesWhatCollides(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	_, a, b := ofAgents(t, d)
	asks(t, a, "r", "a?")
	asks(t, b, "r", "b?")
	mustClaim(t, b, "r")
	asks(t, b, "only", "b?")
	out := filepath.Join(t.TempDir(), "out")
	report, err := legacy.Export(ctx, d, legacy.Checkpoints, out, legacy.Options{})
	check(t, err)
	got := fmt.Sprint(report.LeftOut)
	if len(report.LeftOut) != 1 || !strings.Contains(got, `"r" of agent "b"`) {
		t.Errorf("left out: %s", got)
	}
	files, err := os.ReadDir(out)
	check(t, err)
	if len(files) != 2 || files[0].Name() != "only.json" || files[1].Name() != "r.json" {
		t.Errorf("the folder has %v", files)
	}
	again, err := legacy.Import(ctx, d, legacy.Checkpoints, out, legacy.Options{})
	check(t, err)
	if again.Files.New+again.Files.Changed != 0 {
		t.Errorf("the import adds %+v", again.Files)
	}
	verified, err := legacy.Verify(ctx, d, legacy.Checkpoints, out, legacy.Options{})
	check(t, err)
	if len(verified.Differs) > 0 {
		t.Errorf("the verification finds %+v", verified.Differs)
	}
}

// before25 writes a run that waits, one that is claimed and one that is over.
func before25(tx *db.Tx) error {
	columns := func(n ...any) []any { return append(n, txn.Checksum(n...)) }
	for id, state := range []string{"paused", "claimed"} {
		var claimedAt any
		if state == "claimed" {
			claimedAt = 3
		}
		text := []byte("{" + state)
		args := columns(1, state, nil, nil, nil, nil, 3, len(text), checkpoints.Sum(text), "torn")
		_, err := tx.Exec(`INSERT INTO checkpoints (scope, run_id, paused_stage_id, prompt, created_at,
			created_at_text, saved_at, size, checksum, problem, row_checksum, state, claimed_at, id)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(args, state, claimedAt, id+7)...)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO checkpoint_documents (checkpoint, document, checksum) VALUES (?, ?, ?)`,
			columns(id+7, text)...)
		if err != nil {
			return err
		}
	}
	_, err := tx.Exec(`INSERT INTO checkpoint_history (scope, run_id, ending, decision, decided_by,
		paused_stage_id, prompt, created_at, created_at_text, saved_at, size, claimed_at, completed_at, epoch,
		owner_pid, owner_program, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		columns(1, "over", "completed", "yes", "ada", "gate", "go?", 1, nil, 2, 3, 4, 5, 6, 7, "p")...)
	return err
}

func TestAgents_UpgradeKeepsAllRows(t *testing.T) {
	for _, from := range []int64{21, 24} {
		path := dbtest.Path(t)
		d, err := db.Open(ctx, path, db.Options{SchemaVersion: from})
		check(t, err)
		check(t, d.Write(ctx, "fill", before25))
		check(t, d.Close())
		d, err = db.Open(ctx, path, db.Options{})
		check(t, err)
		store := checkpoints.NewStore(d, checkpoints.Options{})
		if got := contents(t, store); got != "claimed:claimed paused:paused " {
			t.Errorf("from %d: there is %s", from, got)
		}
		if past := history(t, store, checkpoints.HistoryFilter{}); len(past) != 1 || past[0].Decision.By != "ada" {
			t.Errorf("from %d: the history is %+v", from, past)
		}
		x, err := maintenance.Examine(ctx, d)
		unsummed := slices.ContainsFunc(x.Checksums, func(c maintenance.ChecksumCount) bool {
			return strings.HasPrefix(c.Table, "checkpoint") && c.Without > 0
		})
		if err != nil || len(x.Problems) > 0 || unsummed {
			t.Errorf("from %d: the check finds %+v, %v", from, x, err)
		}
		check(t, d.Close())
	}
}

// Two agents have a checkpoint of one run, which the schema before 25 can't hold.
func TestAgents_DowngradeRefusesTwoOfOneRun(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(ctx, path, db.Options{})
	check(t, err)
	_, a, b := ofAgents(t, d)
	asks(t, a, "r", "a?")
	asks(t, b, "r", "b?")
	check(t, d.Close())
	_, err = maintenance.Migrate(ctx, path, db.Options{SchemaVersion: 24})
	if err == nil || !strings.Contains(err.Error(), "the file is as it was") {
		t.Errorf("down: %v", err)
	}
	d = dbtest.OpenAt(t, path, db.Options{})
	_, a, b = ofAgents(t, d)
	if is := contents(t, a) + contents(t, b); is != "r:paused r:paused " {
		t.Errorf("after it there is %s", is)
	}
}
