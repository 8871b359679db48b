package runs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// The original's own tests, under their names.

var day = 24 * time.Hour

// start is when the clocks of these tests stand.
var start = time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC)

func openStore(t testing.TB, options runs.Options) (*runs.Store, *db.DB) {
	t.Helper()
	d := dbtest.Open(t, db.Options{Now: dbtest.NewClock(start).Now, Synchronous: db.SyncNormal})
	return runs.NewStore(d, options), d
}

func keep(perAgent uint64, days int64) runs.Options {
	return runs.Options{Retention: &runs.RetentionConfig{MaxPerAgent: perAgent, MaxAgeDays: days}}
}

func started(runID, agentID string, when time.Time) runs.Started {
	return runs.Started{RunID: runID, AgentID: agentID, Intent: "do the thing", StartedAt: when}
}

func turn(index uint64, prompt string) runs.Turn {
	parameters, err := json.Marshal(map[string]string{"prompt": prompt})
	if err != nil {
		panic(err)
	}
	return runs.Turn{
		Index: index, Prompt: &prompt, Tool: new("drive_cli"), Parameters: parameters,
		Output: json.RawMessage(`{"exit_code":0}`),
	}
}

func ended(runID, agentID string, status runs.OutcomeStatus, when time.Time) runs.Ended {
	return runs.Ended{
		RunID: runID, AgentID: agentID, EndedAt: when,
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{
			Status: status, Summary: "done",
			Timestamp: when,
		}},
	}
}

// must ends the test when a call that should work fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func list(t testing.TB, s *runs.Store, agentID string) []runs.RunSummary {
	t.Helper()
	all, err := s.ListRuns(t.Context(), agentID)
	must(t, err)
	return all
}

func trace(t testing.TB, s *runs.Store, runID string) []runs.Record {
	t.Helper()
	records, found, err := s.GetRunTrace(t.Context(), runID)
	must(t, err)
	if !found {
		t.Fatalf("there is no run %q", runID)
	}
	return records
}

func prompts(records []runs.Record) []string {
	var all []string
	for _, r := range records {
		if turn, ok := r.(runs.Turn); ok {
			all = append(all, *turn.Prompt)
		}
	}
	return all
}

// importTrace brings a trace file's text in, as an importer does.
func importTrace(t testing.TB, d *db.DB, s *runs.Store, run runs.RunRef, text string) {
	t.Helper()
	must(t, d.Write(t.Context(), "import", func(tx *db.Tx) error { return s.ImportLines(tx, run, text) }))
}

// exportTrace is the trace as an export writes it.
func exportTrace(t testing.TB, s *runs.Store, run runs.RunRef) string {
	t.Helper()
	var b strings.Builder
	for line, err := range s.Lines(t.Context(), run) {
		must(t, err)
		b.Write(line.Line)
		b.WriteByte('\n')
	}
	return b.String()
}

func TestCompletedRunReadableAfterRestart(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	first := runs.NewStore(d, runs.Options{})
	must(t, first.WriteStarted(t.Context(), started("run-1", "agent-a", time.Now())))
	must(t, first.AppendTurns(t.Context(), "agent-a", "run-1", []runs.Turn{turn(0, "first")}))
	must(t, first.AppendRecords(t.Context(), "agent-a", "run-1",
		[]runs.Record{ended("run-1", "agent-a", runs.OutcomeSuccess, time.Now())}))
	must(t, d.Close())

	records := trace(t, runs.NewStore(dbtest.OpenAt(t, path, db.Options{}), runs.Options{}), "run-1")
	if len(records) != 3 {
		t.Fatalf("the trace has %d records, not 3", len(records))
	}
	for i, want := range []string{"started", "turn", "ended"} {
		if got := records[i].RecordKind(); got != want {
			t.Errorf("record %d is %s, not %s", i, got, want)
		}
	}
}

func TestRunsIsolatedPerAgentAndRun(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	for _, run := range []struct{ run, agent, prompt string }{
		{"run-1", "agent-a", "a-first"},
		{"run-2", "agent-a", "a-second"},
		{"run-3", "agent-b", "b-first"},
	} {
		must(t, s.WriteStarted(t.Context(), started(run.run, run.agent, start)))
		must(t, s.AppendTurns(t.Context(), run.agent, run.run, []runs.Turn{turn(0, run.prompt)}))
	}
	for run, want := range map[string]string{"run-1": "a-first", "run-2": "a-second", "run-3": "b-first"} {
		if got := prompts(trace(t, s, run)); len(got) != 1 || got[0] != want {
			t.Errorf("%s has the prompts %q, not %q", run, got, want)
		}
	}
	for run, want := range map[string]string{"run-1": "agent-a", "run-3": "agent-b"} {
		agent, found, err := s.AgentForRun(t.Context(), run)
		if err != nil || !found || agent != want {
			t.Errorf("the agent of %s is %q (%v, %v), not %q", run, agent, found, err, want)
		}
	}
	if a, b := len(list(t, s, "agent-a")), len(list(t, s, "agent-b")); a != 2 || b != 1 {
		t.Errorf("the agents have %d and %d runs, not 2 and 1", a, b)
	}
}

// The original's files are one file here.
func TestPermsAre0600Files0700Dirs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	path := filepath.Join(dir, "selvedge.db")
	t.Cleanup(func() { dbtest.Check(t, path) })
	s := runs.NewStore(dbtest.OpenAt(t, path, db.Options{}), runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("run-1", "agent-a", start)))
	modes := map[string]fs.FileMode{dir: 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600}
	for name, want := range modes {
		info, err := os.Stat(name)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has the mode %o, not %o", filepath.Base(name), got, want)
		}
	}
}

func TestOrphanRunStatusDistinguishesInprogressFromIncomplete(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("run-1", "agent-a", start.Add(-6*time.Hour))))
	must(t, s.AppendTurns(t.Context(), "agent-a", "run-1", []runs.Turn{turn(0, "first")}))
	if got := list(t, s, "agent-a")[0].Status; got != runs.StatusInProgress {
		t.Errorf("the open run is %s", got)
	}
	must(t, s.AppendRecords(t.Context(), "agent-a", "run-1",
		[]runs.Record{runs.Ended{RunID: "run-1", AgentID: "agent-a", EndedAt: start}}))
	if got := list(t, s, "agent-a")[0].Status; got != runs.StatusIncomplete {
		t.Errorf("the run that ended without an outcome is %s", got)
	}
}

func TestGC_CapSparesRunsInProgress(t *testing.T) {
	s, _ := openStore(t, keep(3, 30))
	for i, id := range []string{"c0", "c1", "c2", "c3", "c4"} {
		when := start.Add(-day).Add(time.Duration(i) * time.Minute)
		must(t, s.WriteStarted(t.Context(), started(id, "agent-a", when)))
		must(t, s.AppendRecords(t.Context(), "agent-a", id,
			[]runs.Record{ended(id, "agent-a", runs.OutcomeSuccess, start)}))
	}
	must(t, s.WriteStarted(t.Context(), started("live", "agent-a", start)))
	removed, err := s.GC(t.Context())
	if err != nil || removed != 2 {
		t.Fatalf("removed %d (%v), not the 2 oldest completed runs", removed, err)
	}
	var left []string
	for _, run := range list(t, s, "agent-a") {
		left = append(left, run.RunID)
	}
	if got := strings.Join(left, " "); got != "live c4 c3 c2" {
		t.Errorf("left are %s", got)
	}
}

func TestGCEvictsRunsOlderThanAgeCap(t *testing.T) {
	s, _ := openStore(t, keep(50, 30))
	for id, when := range map[string]time.Time{"old": start.Add(-40 * day), "fresh": start} {
		must(t, s.WriteStarted(t.Context(), started(id, "agent-a", when)))
		must(t, s.AppendRecords(t.Context(), "agent-a", id,
			[]runs.Record{ended(id, "agent-a", runs.OutcomeSuccess, when)}))
	}
	if removed, err := s.GC(t.Context()); err != nil || removed != 1 {
		t.Errorf("removed %d (%v), not the run of 40 days ago", removed, err)
	}
	if left := list(t, s, "agent-a"); len(left) != 1 || left[0].RunID != "fresh" {
		t.Errorf("left are %v", left)
	}
}

func TestGCNeverEvictsStaleInProgressRun(t *testing.T) {
	s, _ := openStore(t, keep(1, 1))
	must(t, s.WriteStarted(t.Context(), started("stale-live", "agent-a", start.Add(-40*day))))
	if removed, err := s.GC(t.Context()); err != nil || removed != 0 {
		t.Errorf("removed %d (%v) open runs", removed, err)
	}
	if len(list(t, s, "agent-a")) != 1 {
		t.Error("the open run is gone")
	}
}

func TestCorruptTrailingLineLoadsPriorRecords(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	run := runs.RunRef{AgentID: "agent-a", RunID: "run-1"}
	const text = `{"record":"started","run_id":"run-1","agent_id":"agent-a","intent":"do the thing","started_at":"2026-05-04T08:00:00Z"}
{"record":"turn","index":0,"prompt":"first","verifier_verdict":"not_run"}
{"record":"turn","index":1,"prompt":"second","verifier_verdict":"not_run"}
{"record":"turn","index":2,"prom
`
	importTrace(t, d, s, run, text)
	if got := strings.Join(prompts(trace(t, s, "run-1")), " "); got != "first second" {
		t.Errorf("the turns before the torn line are %q", got)
	}
	if got := exportTrace(t, s, run); got != text {
		t.Errorf("the export is\n%s", got)
	}
}

func TestListRunsEmptyForUnknownAgent(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	if all := list(t, s, "nobody"); len(all) != 0 {
		t.Errorf("an agent that nobody has seen has the runs %v", all)
	}
	if _, found, err := s.GetRunTrace(t.Context(), "nope"); found || err != nil {
		t.Errorf("a run that nobody has seen has a trace (%v, %v)", found, err)
	}
	if _, found, err := s.AgentForRun(t.Context(), "nope"); found || err != nil {
		t.Errorf("a run that nobody has seen has an agent (%v, %v)", found, err)
	}
}

func TestFromJournalDirRootsAtCarRuns(t *testing.T) {
	_, d := openStore(t, runs.Options{})
	if got := runs.FromJournalDir(d, "/home/u/.car/journals",
		runs.Options{}).Root(); got != "/home/u/.car/runs" {
		t.Errorf("the root is %q", got)
	}
}

func TestRetentionConfigReadsOverrides(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte("[runs]\nmax_per_agent = 10\n"), 0o600))
	want := runs.RetentionConfig{MaxPerAgent: 10, MaxAgeDays: runs.DefaultMaxAgeDays}
	if got := runs.FromCarDir(dir); got != want {
		t.Errorf("the limits are %+v", got)
	}
}

func TestRetentionConfigDefaultsOnMissingFile(t *testing.T) {
	if got := runs.FromCarDir(t.TempDir()); got != runs.DefaultRetention() {
		t.Errorf("the limits are %+v", got)
	}
}

func TestGCAgeCapUsesTerminalTimeNotStart(t *testing.T) {
	s, _ := openStore(t, keep(50, 30))
	must(t, s.WriteStarted(t.Context(), started("long", "agent-a", start.Add(-40*day))))
	must(t, s.AppendRecords(t.Context(), "agent-a", "long",
		[]runs.Record{ended("long", "agent-a", runs.OutcomeSuccess, start.Add(-day))}))
	if removed, err := s.GC(t.Context()); err != nil || removed != 0 {
		t.Errorf("removed %d (%v): a run that ended a day ago is young, whenever it started", removed, err)
	}
	if len(list(t, s, "agent-a")) != 1 {
		t.Error("the run is gone")
	}
}

func TestAdoptOrphansMarksCrashedInprogressRunsIncomplete(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("orphan", "agent-a", start)))
	must(t, s.AppendTurns(t.Context(), "agent-a", "orphan", []runs.Turn{turn(0, "first")}))
	again := runs.NewStore(d, runs.Options{})
	if adopted, err := again.AdoptOrphans(t.Context()); err != nil || adopted != 1 {
		t.Fatalf("adopted %d (%v), not 1", adopted, err)
	}
	after := list(t, again, "agent-a")[0]
	if after.Status != runs.StatusIncomplete || after.EndedAt == nil || !after.EndedAt.Equal(start) ||
		after.TurnCount != 1 {
		t.Errorf("the adopted run is %+v", after)
	}
	if adopted, err := again.AdoptOrphans(t.Context()); err != nil || adopted != 0 {
		t.Errorf("adopted %d (%v) the second time", adopted, err)
	}
}

func TestAdoptOrphansLeavesCompletedRunsAlone(t *testing.T) {
	s, _ := openStore(t, runs.Options{})
	must(t, s.WriteStarted(t.Context(), started("done", "agent-a", start)))
	must(t, s.AppendRecords(t.Context(), "agent-a", "done",
		[]runs.Record{ended("done", "agent-a", runs.OutcomeSuccess, start)}))
	if adopted, err := s.AdoptOrphans(t.Context()); err != nil || adopted != 0 {
		t.Errorf("adopted %d (%v) completed runs", adopted, err)
	}
	if got := list(t, s, "agent-a")[0].Status; got != runs.StatusCompleted {
		t.Errorf("the completed run is %s", got)
	}
}

func TestTornTailDoesNotDropFollowingValidRecord(t *testing.T) {
	s, d := openStore(t, runs.Options{})
	run := runs.RunRef{AgentID: "agent-a", RunID: "run-1"}
	const text = `{"record":"started","run_id":"run-1","agent_id":"agent-a","intent":"do the thing","started_at":"2026-05-04T08:00:00Z"}
{"record":"turn","index":0,"prompt":"first","verifier_verdict":"not_run"}
{"record":"turn","index":1,"prom`
	importTrace(t, d, s, run, text)
	must(t, s.AppendTurns(t.Context(), "agent-a", "run-1", []runs.Turn{turn(2, "third")}))
	records := trace(t, s, "run-1")
	if got := strings.Join(prompts(records), " "); got != "first third" {
		t.Errorf("the turns are %q", got)
	}
	if records[0].RecordKind() != "started" {
		t.Errorf("the trace begins with a record %s", records[0].RecordKind())
	}
	const third = `{"record":"turn","index":2,"prompt":"third","tool":"drive_cli","parameters":{"prompt":"third"},"output":{"exit_code":0},"verifier_verdict":"not_run"}`
	if got, want := exportTrace(t, s, run), text+"\n"+third+"\n"; got != want {
		t.Errorf("the export is\n%s", got)
	}
}

func second[T any](_ T, err error) error { return err }
