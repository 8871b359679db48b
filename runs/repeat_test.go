package runs_test

import (
	"errors"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/migrations"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// batchOf is the number that the last append left in a run.
func batchOf(t *testing.T, s *runs.Store, ref runs.RunRef) int64 {
	t.Helper()
	var batch int64
	must(t, handle(s).Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Get(&batch, `SELECT t.batch FROM runs AS r JOIN run_records AS t ON t.id > r.key << 24
		AND t.id < (r.key + 1) << 24
WHERE r.agent_id = ? AND r.run_id = ? AND t.batch IS NOT NULL ORDER BY t.id DESC
	LIMIT 1`, ref.AgentID, ref.RunID)
	}))
	return batch
}

func TestAppend_RepeatAfterSuccessDoesNothing(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	batch := runs.Batch{AgentID: "a", RunID: "r", Records: []runs.Record{turn(0, "p"), turn(1, "q")}}
	for _, open := range []bool{true, false} { // in a run of ours, and in one that has ended
		must(t, second(s.Append(t.Context(), batch)))
		lines := len(kinds(t, s, "a", "r"))
		again := batch
		again.Repeat = batchOf(t, s, ref)
		must(t, second(s.Append(t.Context(), again)))
		if got := len(kinds(t, s, "a", "r")); got != lines {
			t.Errorf("open %v: the repeat of an append that was kept made %d lines of %d", open, got, lines)
		}
		again.Repeat++
		must(t, second(s.Append(t.Context(), again)))
		if got := len(kinds(t, s, "a", "r")); got != lines+2 {
			t.Errorf("open %v: the repeat of an append that was not kept made %d lines of %d", open, got, lines)
		}
		must(t, s.WriteEnded(t.Context(), ended("r", "a", runs.OutcomeSuccess, start)))
	}
}

func TestAKeyOutlivesItsRunForThirtyDays(t *testing.T) {
	clock := dbtest.NewClock(start)
	d := dbtest.Open(t, db.Options{Now: clock.Now, Synchronous: db.SyncNormal})
	s := runs.NewStore(d, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	batch := runs.Batch{
		AgentID: "a", RunID: "r", Key: "k",
		Records: []runs.Record{started("r", "a", start), ended("r", "a", runs.OutcomeSuccess, start)},
	}
	other := batch
	other.Records = []runs.Record{turn(1, "q")}
	must(t, second(s.Append(t.Context(), batch)))
	must(t, s.Delete(t.Context(), ref))
	clock.Advance(30 * day)
	must(t, s.Delete(t.Context(), endedRun(t, s, "old keys are forgotten where something is removed")))
	must(t, second(s.Append(t.Context(), batch)))
	if _, err := s.Get(t.Context(), ref); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("the repeat made the removed run again: %v", err)
	}
	if _, err := s.Append(t.Context(), other); !errors.Is(err, db.ErrConflict) {
		t.Errorf("other records under the key gave %v", err)
	}
	clock.Advance(time.Nanosecond)
	must(t, s.Delete(t.Context(), endedRun(t, s, "and again")))
	must(t, second(s.Append(t.Context(), batch)))
	if got := len(kinds(t, s, "a", "r")); got != 2 {
		t.Errorf("after 30 days the run has %d records", got)
	}
}

func endedRun(t *testing.T, s *runs.Store, id string) runs.RunRef {
	t.Helper()
	must(t, s.AppendRecords(t.Context(), "a", id,
		[]runs.Record{started(id, "a", start), ended(id, "a", runs.OutcomeSuccess, start)}))
	return runs.RunRef{AgentID: "a", RunID: id}
}

// A key is one of a run, not of a name.
func TestAppend_RecreatedRunKnowsNoOldKey(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	ref := runs.RunRef{AgentID: "a", RunID: "r"}
	batch := runs.Batch{AgentID: "a", RunID: "r", Key: "turn-0", Records: []runs.Record{turn(0, "p")}}
	for range 2 {
		must(t, s.WriteStarted(t.Context(), started("r", "a", start)))
		for range 2 {
			must(t, second(s.Append(t.Context(), batch)))
		}
		if got := len(kinds(t, s, "a", "r")); got != 2 {
			t.Fatalf("a start and a turn, given twice, are %d lines", got)
		}
		must(t, s.WriteEnded(t.Context(), ended("r", "a", runs.OutcomeSuccess, start)))
		must(t, s.Delete(t.Context(), ref))
		must(t, second(s.Append(t.Context(), batch)))
		if _, err := s.Get(t.Context(), ref); !errors.Is(err, db.ErrNotFound) {
			t.Fatalf("a late repeat made the run anew: %v", err)
		}
	}
}

// What is written in Go is what the declaration says, in every row of every kind, also after changes.
func TestChecksumsCoverWhatTheSchemaSays(t *testing.T) {
	s, d := openStore(t, runs.Options{Scope: "s"})
	importTrace(t, d, s, runs.RunRef{AgentID: "a", RunID: "old"},
		"garbage\n\n"+`{"record":"turn","index":1,"parameters":{"b": 1.10},"verifier_verdict":"not_run"}`+"\n")
	full := turn(1, "prompt")
	full.Tool, full.Parameters, full.Output = new("shell"), []byte(`{"a":1}`), []byte(`[1, 2]`)
	full.CliOutcome, full.PolicyRejected = &runs.CliOutcome{Kind: runs.CliExited, Code: 3},
		&runs.PolicyRejection{Rule: "r", Param: new("p")}
	must(t, s.AppendRecords(t.Context(), "a", "r",
		[]runs.Record{started("shown", "other", start), full, laterRecord("x")}))
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{full, turn(2, "q")}))
	must(t, s.WriteEnded(t.Context(), ended("r", "a", runs.OutcomeSuccess, start)))
	must(t, s.AppendTurns(t.Context(), "a", "r", []runs.Turn{turn(3, "late")}))
	checked := 0
	for _, sum := range migrations.Checksums {
		if sum.Table != "runs" && sum.Table != "run_records" {
			continue
		}
		query := "SELECT " + sum.Column
		for _, name := range sum.Covered {
			query += ", " + name
		}
		for _, row := range rowsOf(t, d, query+" FROM "+sum.Table, 1+len(sum.Covered)) {
			if checked++; row[0] != txn.Checksum(row[1:]...) {
				t.Errorf("%s: the checksum of %q is %v", sum.Table, row[1:], row[0])
			}
		}
	}
	if checked != 2+3+7 {
		t.Errorf("%d rows were checked", checked)
	}
}

func rowsOf(t *testing.T, d *db.DB, query string, columns int) (list [][]any) {
	t.Helper()
	must(t, d.Read(t.Context(), "look", func(rx *db.Rx) error {
		for row, err := range rx.Query(query) {
			if err != nil {
				return err
			}
			values, targets := make([]any, columns), make([]any, columns)
			for i := range values {
				targets[i] = &values[i]
			}
			if err := row.Scan(targets...); err != nil {
				return err
			}
			list = append(list, values)
		}
		return nil
	}))
	return list
}
