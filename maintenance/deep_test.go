package maintenance_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

var checks = map[string]func(context.Context, *db.DB) (maintenance.Examination, error){
	"check": maintenance.Examine,
	"deep":  maintenance.Check,
}

func TestACheckComparesACheckpointWithItsDocument(t *testing.T) {
	for _, set := range []string{
		`prompt = 'sign here'`, `paused_stage_id = 'other'`,
		`created_at = created_at + 1`,
	} {
		d := dbtest.Open(t, db.Options{})
		s := checkpoints.NewStore(d, checkpoints.Options{})
		if err := s.Save(t.Context(), &checkpoints.PausedWorkflow{
			RunID: "r", PausedStageID: "gate",
			Prompt: "deploy?", CreatedAt: time.Unix(1e9, 5),
		}); err != nil {
			t.Fatal(err)
		}
		if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) != 0 {
			t.Fatalf("a whole file: %v, %v", x.Problems, err)
		}
		edit(t, d, `UPDATE checkpoints SET `+set+`, row_checksum = NULL`)
		for name, check := range checks {
			if x, err := check(t.Context(), d); err != nil || len(x.Problems) != 1 ||
				!strings.Contains(x.Problems[0].Detail, "than its document") {
				t.Errorf("%s, %s: %v, %v", name, set, x.Problems, err)
			}
		}
	}
}

func edit(t *testing.T, d *db.DB, statement string) {
	t.Helper()
	err := d.Write(t.Context(), "edit", func(tx *db.Tx) error {
		_, err := tx.Exec(statement)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestACheckComparesARunWithItsTrace(t *testing.T) {
	for set, word := range map[string]string{
		`intent = 'all went well'`: "another intent or start", `summary = 'all went well'`: "another summary",
		`outcome = 'success'`:     "another end",
		`ended_at = ended_at + 1`: "another end", `status = 'incomplete', outcome = NULL`: "another end",
	} {
		d := dbtest.Open(t, db.Options{})
		s := runs.NewStore(d, runs.Options{})
		outcome := &runs.AgentOutcome{Status: runs.OutcomeFailure, Summary: "the disk is full"}
		if _, err := s.Append(t.Context(), runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{
			runs.Started{RunID: "r", AgentID: "a", Intent: "fix"},
			runs.Ended{RunID: "r", AgentID: "a", Termination: runs.Termination{Outcome: outcome}},
		}}); err != nil {
			t.Fatal(err)
		}
		if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) != 0 {
			t.Fatalf("a whole file: %v, %v", x.Problems, err)
		}
		if x, err := maintenance.Examine(t.Context(), d); err != nil || len(x.Problems) != 0 {
			t.Fatalf("a whole file: %v, %v", x.Problems, err)
		}
		edit(t, d, `UPDATE runs SET `+set+`, checksum = NULL`)
		for name, check := range checks {
			if x, err := check(t.Context(), d); err != nil || len(x.Problems) != 1 ||
				!strings.Contains(x.Problems[0].Detail, word) {
				t.Errorf("%s, %s: %v, %v", name, set, x.Problems, err)
			}
		}
	}
}

func TestADeepCheckReadsARunThatCallsItselfOtherwise(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	_, err := runs.NewStore(d, runs.Options{}).Append(t.Context(),
		runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{
			runs.Started{RunID: "someone-else", AgentID: "b", Intent: "fix"},
		}})
	if err != nil {
		t.Fatal(err)
	}
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) != 0 {
		t.Errorf("%v, %v", x.Problems, err)
	}
}

func TestDeepCheck_DamagedFileSaysWhatIsWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "selvedge.db")
	open := func() *db.DB {
		d, err := db.Open(t.Context(), path, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	edit(t, d, `CREATE TABLE mine (a TEXT) STRICT`)
	var root int64
	if err := d.Read(t.Context(), "find the table", func(rx *db.Rx) error {
		return rx.Get(&root, `SELECT rootpage FROM sqlite_schema WHERE name = 'mine'`)
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	const page = 4096
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(bytes.Repeat([]byte{0xff}, page), (root-1)*page)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	d = open()
	defer d.Close()
	told := db.WithProgress(t.Context(), func(db.Progress) {})
	for name, check := range checks {
		for _, ctx := range []context.Context{t.Context(), told} {
			if x, err := check(ctx, d); err != nil || len(x.Problems) == 0 {
				t.Errorf("%s: %v, %v", name, x.Problems, err)
			}
		}
	}
}
