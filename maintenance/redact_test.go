package maintenance_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/legacy"
	"selvedge/maintenance"
	"selvedge/migrations"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func TestEveryColumnOfTextIsDeclared(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	var have []string
	err := d.Read(t.Context(), "list columns", func(rx *db.Rx) error {
		return rx.Select(&have, `SELECT m.name || '.' || c.name FROM pragma_table_list AS l
		JOIN sqlite_schema AS m ON m.name = l.name, pragma_table_info(m.name) AS c
			WHERE l.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'goose_db_version'
			AND c.type NOT IN ('INTEGER', 'REAL') ORDER BY 1`)
	})
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, x := range migrations.TextColumns {
		for _, column := range slices.Concat(x.Plain, x.JSON, x.Kinds, x.Names) {
			declared = append(declared, x.Table+"."+column)
		}
	}
	for line := range strings.Lines(ownWords) {
		columns := strings.Fields(line)
		for _, column := range columns[min(1, len(columns)):] {
			declared = append(declared, columns[0]+"."+column)
		}
	}
	slices.Sort(declared)
	for _, column := range have {
		if !slices.Contains(declared, column) {
			t.Errorf("%s is not in migrations.TextColumns: may texts of users stand in it?", column)
		}
	}
	for i, column := range declared {
		if !slices.Contains(have, column) {
			t.Errorf("%s is in migrations.TextColumns, and not in the schema", column)
		}
		if i > 0 && declared[i-1] == column {
			t.Errorf("%s is declared twice", column)
		}
	}
}

// filesOf are the bytes of the file and of what SQLite keeps beside it.
func filesOf(t *testing.T, path string) (all []byte) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm", "-reserve"} {
		content, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, content...)
	}
	return all
}

func TestRedact_ErasedEverywhereAndNothingElse(t *testing.T) {
	path := dbtest.Path(t)
	filled(t, path, 1)
	pattern := regexp.MustCompile(`[jqxz]{4}`)
	before, err := answers(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if !pattern.Match(filesOf(t, path)) {
		t.Fatal("there is nothing to erase")
	}
	d, err := db.Open(t.Context(), path, db.Options{Now: atTheTime})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := maintenance.PlanRedaction(t.Context(), d, maintenance.Redaction{Pattern: pattern})
	if err != nil {
		t.Fatal(err)
	}
	done, err := maintenance.Redact(t.Context(), d, maintenance.Redaction{Pattern: pattern})
	if err != nil || fmt.Sprint(done) != fmt.Sprint(plan) || done.Rows() < 20 {
		t.Errorf("planned %v\ndone    %v, %v", plan, done, err)
	}
	if found := pattern.Find(filesOf(t, path)); found != nil { // while it is open
		t.Errorf("%q is still in the files", found)
	}
	again, err := maintenance.PlanRedaction(t.Context(), d, maintenance.Redaction{Pattern: pattern})
	if err != nil || again.Rows() != 0 {
		t.Errorf("a second time it finds %v, %v", again, err)
	}
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("the file says %v, %v", x.Problems, err)
	}
	for _, kind := range legacy.Kinds() {
		if _, err := legacy.Export(t.Context(), d, kind, filepath.Join(t.TempDir(), string(kind)),
			legacy.Options{Scope: "imported"}); err != nil {
			t.Errorf("export %v: %v", kind, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := answers(t.Context(), path)
	if err != nil || len(after) != len(before) {
		t.Fatalf("%d answers, %v; before there were %d", len(after), err, len(before))
	}
	for i := range before {
		after[i] = decoded(t, after[i])
		want := pattern.ReplaceAllStringFunc(decoded(t, before[i]),
			func(s string) string { return strings.Repeat("*", len(s)) })
		if after[i] != want {
			at := 0
			for at < min(len(want), len(after[i])) && after[i][at] == want[at] {
				at++
			}
			t.Errorf("it says %.80s, at %d %.80s\nwant    %.80s", after[i], at, after[i][max(0, at-20):],
				want[max(0, at-20):])
		}
	}
}

// decoded shows the bytes of a record's line.
func decoded(t *testing.T, answer string) string {
	t.Helper()
	return regexp.MustCompile(`"Line":"[A-Za-z0-9+/=]*"`).ReplaceAllStringFunc(answer,
		func(member string) string {
			text, err := base64.StdEncoding.DecodeString(member[len(`"Line":"`) : len(member)-1])
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		})
}

const secret = `sk-live-"quoted"/key\1234`

// leaky is a file in which a secret stands in all sorts of places, some of them deleted again.
func leaky(t *testing.T) *db.DB {
	t.Helper()
	d := dbtest.Open(t, db.Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store := runs.NewStore(d, runs.Options{})
	for _, run := range []string{"one", "two"} {
		must(store.WriteStarted(t.Context(),
			runs.Started{RunID: run, AgentID: "a", Intent: "use " + secret, StartedAt: theTime}))
		prompt := "so " + secret
		must(second(store.Append(t.Context(), runs.Batch{AgentID: "a", RunID: run, Records: []runs.Record{runs.Turn{
			Prompt:     &prompt,
			Parameters: []byte(`{"key":"sk-live-\"quoted\"\/key\\\u0031234","card":4111111111111111}`),
			Output:     []byte(`["sk-live-\u0022quoted\u0022/key\\1234", "sk-l` + "\u2028" + `"]`),
		}}})))
	}
	runsLive := live.NewStore(d, live.Options{})
	_, err := runsLive.CreateRunWithID(t.Context(), "one", "session", secret)
	must(err)
	_, _, err = runsLive.RecordEvent(t.Context(), "one", live.AgentStart(secret))
	must(err)
	must(checkpoints.NewStore(d, checkpoints.Options{}).Save(t.Context(), &checkpoints.PausedWorkflow{
		RunID: "one", Workflow: checkpoints.Workflow{ID: "flow", Name: secret, Start: "gate", MaxIterations: 1},
		PausedStageID: "gate",
		Prompt:        secret, OutputKey: "approval", CreatedAt: theTime,
	}))
	_, err = d.Reserve(t.Context(), "port", "8080",
		db.ReserveOptions{Note: secret, LeaseTerms: db.LeaseTerms{TTL: time.Hour}})
	must(err)

	// Bytes that could not be read, in pieces of which the secret takes two.
	must(d.Write(t.Context(), "put into quarantine", func(tx *db.Tx) error {
		for _, sql := range []string{
			`INSERT INTO import_sources (id, scope, kind, root, first_at, last_at)
				VALUES (1, 1, 'runs', CAST('/tree' AS BLOB), 1, 1)`,
			`INSERT INTO quarantine (id, scope, source, path, byte_offset, what, reason, entity_id, bytes, found_at)
				VALUES (1, 1, 1, CAST('f' AS BLOB), 0, 'line', 'torn', 'one', 26, 1)`,
			`INSERT INTO quarantine_parts (quarantine, part, raw)
				VALUES (1, 0, CAST('{"a":"sk-l' AS BLOB)), (1, 1, CAST('ive-"quoted"/key' AS BLOB))`,
		} {
			if _, err := tx.Exec(sql); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err = runsLive.CreateRunWithID(t.Context(), "gone", "session", "sk-live-deleted")
	must(err)
	must(runsLive.Delete(t.Context(), "gone"))
	return d
}

func TestRedact_FindsEscapedSplitAndDeletedSecrets(t *testing.T) {
	d := leaky(t)
	for _, r := range []maintenance.Redaction{
		{Pattern: regexp.MustCompile(`sk-live-[a-z]+`)},
		{Pattern: regexp.MustCompile(`sk-live-"quoted"/key(\\1234)?`)},
		{Pattern: regexp.MustCompile(`\*+"quoted"/key(\\1234)?|\b4\d{15}\b`)},
	} {
		if _, err := maintenance.Redact(t.Context(), d, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, piece := range []string{"sk-live", "quoted", `1234`, "4111111111111111"} {
		if bytes.Contains(filesOf(t, d.Path()), []byte(piece)) {
			t.Errorf("%q is still in the files", piece)
		}
	}
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("the file says %v, %v", x.Problems, err)
	}
	s, err := runs.NewStore(d, runs.Options{}).Get(t.Context(), runs.RunRef{AgentID: "a", RunID: "one"})
	if err != nil || !strings.HasPrefix(s.Intent, "use [redacted]") &&
		!strings.HasPrefix(s.Intent, "use ****") || len(s.Intent) != len("use "+secret) {
		t.Errorf("the intent is %q, %v", s.Intent, err)
	}
}

// TestRedact_ImportBringsNothingBack imports trees, erases a secret, and imports again: what is unchanged,
// and a runtime that its program has gone on with.
func TestRedact_ImportBringsNothingBack(t *testing.T) {
	const worker = `"worker_ref":{"runtime_id":"r","worker_id":"w"}`
	dir, path := t.TempDir(), dbtest.Path(t)
	runtime := filepath.Join(dir, "runtimes", "id-72")
	events := filepath.Join(runtime, "events.jsonl")
	for at, text := range map[string]string{
		filepath.Join(dir, "config.toml"): "key = \"hunter2 secret\"\n[runs]\nmax_per_agent = 7\n",
		filepath.Join(dir, "runs", "a", "r.jsonl"): `{"record":"started","run_id":"r","agent_id":"a","intent":"i",` +
			`"started_at":"2026-05-20T11:00:00Z"}` + "\n" + `{"record":"turn","prompt":"hunter2 secret`,
		filepath.Join(runtime, "runtime.json"): `{"schema_version":1,"runtime_id":"r","display_name":"hunter2 secret",` +
			`"backend":"fs_store","status":"running","limits":{"max_transcript_projection_items":2,` +
			`"max_event_batch_items":2},"next_worker_sequence":2,"next_event_id":3,"next_diagnostic_id":1,` +
			`"diagnostics":[]}`,
		events: `{"id":1,"kind":{"kind":"runtime_started"},"message":"hunter2 secret"}` + "\n",
		filepath.Join(runtime, "workers", "id-77", "worker.json"): `{"schema_version":1,` + worker + `,"worker_id":"w",` +
			`"status":"running","request":{"intent":{"kind":"task","objective":"hunter2 secret"},` +
			`"profile":{"kind":"runtime_default"}},"next_transcript_sequence":2,"last_event_id":2}`,
		filepath.Join(runtime, "workers", "id-77", "transcript.jsonl"): `{"sequence":1,` + worker +
			`,"role":"user","content":"hunter2 secret","event_id":2}` + "\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700),
			os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	d := dbtest.OpenAt(t, path, db.Options{})
	importBoth := func() {
		for _, kind := range []legacy.Kind{legacy.Runs, legacy.Workers} {
			if _, err := legacy.Import(t.Context(), d, kind, dir, legacy.Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	importBoth()
	secret := regexp.MustCompile("hunter2")
	if done, err := maintenance.Redact(t.Context(), d, maintenance.Redaction{Pattern: secret}); err != nil ||
		done.Rows() < 9 {
		t.Fatal(done, err)
	}
	importBoth()
	f, err := os.OpenFile(events, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"id":2,` + worker + `,"kind":{"kind":"worker_created"},"message":"m"}` + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	importBoth()
	var tables []string
	again, err := maintenance.PlanRedaction(t.Context(), d, maintenance.Redaction{Pattern: secret})
	for _, table := range again.Tables {
		tables = append(tables, table.Table)
	}
	if err != nil || len(tables) > 0 {
		t.Errorf("it is back in %q, %v", tables, err)
	}
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("the file says %v, %v", x.Problems, err)
	}
}

func TestRedact_RunErasesAllOfItsOwn(t *testing.T) {
	d := leaky(t)
	if _, err := maintenance.Redact(t.Context(), d, maintenance.Redaction{Run: "one"}); err != nil {
		t.Fatal(err)
	}
	store := runs.NewStore(d, runs.Options{})
	for run, want := range map[string]bool{"one": false, "two": true} {
		for r, err := range store.Trace(t.Context(), runs.RunRef{AgentID: "a", RunID: run}) {
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(fmt.Sprintf("%+v", r.Record), "use sk-live"); got != want &&
				fmt.Sprintf("%T", r.Record) == "runs.Started" {
				t.Errorf("run %s says %+v", run, r.Record)
			}
		}
	}
	if s, err := store.Get(t.Context(), runs.RunRef{AgentID: "a", RunID: "one"}); err != nil ||
		s.RunID != "one" || !s.StartedAt.Equal(theTime) {
		t.Errorf("the run is %+v, %v", s, err)
	}
	if text, ok, err := checkpoints.NewStore(d, checkpoints.Options{}).LoadDocument(t.Context(),
		"one"); err != nil || !ok || bytes.Contains(text, []byte("quoted")) {
		t.Errorf("the checkpoint is %s, %v", text, err)
	}
	if p, ok, err := checkpoints.NewStore(d, checkpoints.Options{}).Load(t.Context(), "one"); err != nil ||
		!ok || p.RunID != "one" || p.PausedStageID != "gate" {
		t.Errorf("the checkpoint is %+v, %v", p, err)
	}
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("the file says %v, %v", x.Problems, err)
	}
}

func TestRedact_StoppedAnywhereLeavesWholeFile(t *testing.T) {
	left, stop := 0, func() {}
	d := dbtest.Open(t, db.Options{Now: func() time.Time {
		if left--; left == 0 { // a transaction asks for the time once
			stop()
		}
		return theTime
	}})
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	traces := runs.NewStore(d, runs.Options{})
	for _, id := range []string{"one", "two"} {
		must(t, traces.WriteStarted(t.Context(), runs.Started{RunID: id, AgentID: "a", Intent: "use sk-SECRET"}))
		must(t, traces.WriteEnded(t.Context(), runs.Ended{RunID: id, AgentID: "a", Termination: runs.Termination{
			Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess, Summary: "used sk-SECRET"},
		}}))
	}
	must(t, checkpoints.NewStore(d, checkpoints.Options{}).Save(t.Context(), &checkpoints.PausedWorkflow{
		RunID: "one", Workflow: checkpoints.Workflow{ID: "flow", Start: "gate", MaxIterations: 1},
		PausedStageID: "gate", Prompt: "use sk-SECRET?", OutputKey: "approval", CreatedAt: theTime,
	}))
	secret := maintenance.Redaction{Pattern: regexp.MustCompile("sk-[A-Z]+")}
	for at, stopped := 1, true; stopped; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		left, stop = at, cancel
		_, err := maintenance.Redact(ctx, d, secret)
		if stopped = err != nil; stopped && ctx.Err() == nil {
			t.Fatal(err)
		}
		cancel()
		x, err := maintenance.Check(t.Context(), d)
		if err != nil || len(x.Problems) > 0 {
			t.Fatal(x.Problems, err)
		}
	}
}

func TestRedact_PatternInIDsIsNamed(t *testing.T) {
	d := leaky(t)
	done, err := maintenance.PlanRedaction(t.Context(), d,
		maintenance.Redaction{Pattern: regexp.MustCompile(`^one$`)})
	if err != nil || done.Kept() == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	for name, r := range map[string]maintenance.Redaction{
		"nothing":    {},
		"everything": {Pattern: regexp.MustCompile(`x*`)},
	} {
		if _, err := maintenance.PlanRedaction(t.Context(), d, r); !errors.Is(err, db.ErrInvalid) ||
			db.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a tool is given and gives back may have members of any name, lists of anything, and numbers
// that are secret.
func TestRedact_RunErasesToolInputAndOutput(t *testing.T) {
	d := leaky(t)
	store := runs.NewStore(d, runs.Options{})
	secrets := `{"code":"print(hush)","from":"hush","user_id":"hush","pin":4711,"list":[{"type":"hush"},"hush",[{"id":8128}],-8128]}`
	ref := runs.RunRef{AgentID: "a", RunID: "one"}
	_, err := store.Append(t.Context(), runs.Batch{
		AgentID: ref.AgentID, RunID: ref.RunID,
		Records: []runs.Record{
			runs.Turn{Parameters: []byte(secrets), Output: []byte(`[` + secrets + `, "hush", 4711]`)},
			runs.Unknown{Kind: "tool_use", Raw: []byte(
				`{"record":"tool_use","index":3,"notes":[{"type":"kept"},"hush"],"turn_id":"t-1","args":` + secrets +
					`}`)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	paused := checkpoints.NewStore(d, checkpoints.Options{})
	if err := paused.Save(t.Context(), &checkpoints.PausedWorkflow{
		RunID: "one", PausedStageID: "gate", CreatedAt: theTime,
		WFState: map[string]json.RawMessage{"code": []byte(`"hush"`), "pin": []byte(`4711`)},
		Workflow: checkpoints.Workflow{ID: "flow", Start: "s", MaxIterations: 1, Stages: []checkpoints.Stage{{
			ID: "s", Step: []byte(`{"type":"pattern","pattern":"pipeline","task":"hush","agents":[],"config":{"pattern":"hush"}}`),
		}}},
		StageResults: []checkpoints.StageResult{{
			StageID: "s", Status: "succeeded",
			Output: []byte(`{"type":"approval","response":` + secrets + `}`),
		}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Redact(t.Context(), d, maintenance.Redaction{Run: "one"}); err != nil {
		t.Fatal(err)
	}
	if p, ok, err := paused.Load(t.Context(), "one"); err != nil || !ok || len(p.StageResults) != 1 ||
		p.StageResults[0].Status != "succeeded" ||
		!bytes.Contains(p.Workflow.Stages[0].Step, []byte(`"pattern":"pipeline"`)) {
		t.Errorf("the checkpoint is %+v, %v", p, err)
	}
	for _, piece := range []string{"hush", "4711", "8128"} {
		if bytes.Contains(filesOf(t, d.Path()), []byte(piece)) {
			t.Errorf("%q is still in the files", piece)
		}
	}
	var last runs.TraceRecord
	for r, err := range store.Trace(t.Context(), ref) {
		if err != nil {
			t.Fatal(err)
		}
		last = r
	}
	if later, ok := last.Record.(runs.Unknown); !ok || later.Kind != "tool_use" ||
		!strings.HasPrefix(string(last.Line), `{"record":"tool_use","index":3,"notes":[{"type":"kept"},`) ||
		!strings.Contains(string(last.Line), `"turn_id":"t-1"`) {
		t.Errorf("the record of a later version is %s", last.Line)
	}
	var kind string
	err = d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Get(&kind, `SELECT unknown_kind FROM run_records WHERE kind = 'unknown'`)
	})
	if err != nil || kind != "tool_use" {
		t.Errorf("its kind is %q, %v", kind, err)
	}
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("the file says %v, %v", x.Problems, err)
	}
}

func TestRedact_AgentErasesItsLiveRunsAndCheckpoints(t *testing.T) {
	d := leaky(t)
	liveRuns, paused := live.NewStore(d, live.Options{}), checkpoints.NewStore(d, checkpoints.Options{})
	for run, session := range map[string]string{"its": "a", "not its": "b"} {
		if _, err := liveRuns.CreateRunWithID(t.Context(), run, session, "say whisper"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := liveRuns.RecordEvent(t.Context(), run, live.TextDelta("say whisper")); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []string{"two", "its", "not its"} {
		if err := paused.Save(t.Context(), &checkpoints.PausedWorkflow{
			RunID: run, PausedStageID: "gate",
			Prompt: "say whisper", CreatedAt: theTime,
		}); err != nil {
			t.Fatal(err)
		}
	}
	done, err := maintenance.Redact(t.Context(), d, maintenance.Redaction{Agent: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"two", "its", "not its"} {
		text, ok, err := paused.LoadDocument(t.Context(), run)
		if err != nil || !ok || bytes.Contains(text, []byte("whisper")) != (run == "not its") {
			t.Errorf("the checkpoint of %s is %s, %v", run, text, err)
		}
	}
	for _, run := range []string{"its", "not its"} {
		s, err := liveRuns.Get(t.Context(), run)
		if err != nil || strings.Contains(s.Prompt, "whisper") != (run == "not its") {
			t.Errorf("the live run %s is %+v, %v (%+v)", run, s, err, done)
		}
	}
	if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("the file says %v, %v", x.Problems, err)
	}
}

func TestRedact_PartlyRemovedRunsLeaveNothing(t *testing.T) {
	d := leaky(t)
	err := d.Write(t.Context(), "be stopped on the way", func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO run_leavings (run) SELECT key FROM runs
			WHERE run_id = 'two'`); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM runs WHERE run_id = 'two'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Redact(t.Context(), d, maintenance.Redaction{Run: "one"}); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(filesOf(t, d.Path()), []byte("4111111111111111")) {
		t.Error("the trace of a run that was removed is still in the files")
	}
}

func TestRedact_FindsSecretInsideJSON(t *testing.T) {
	for name, text := range map[string]string{
		"as it is":                      `key sk/live-7 \ and more`,
		"in JSON":                       `{"key":"sk/live-7"}`,
		"with a slash escaped":          `{"key":"sk\/live-7"}`,
		"in escapes":                    `{"key":"\u0073\u006b\u002F\u006cive-7","other":"\ud83d\ude00 \u00e9"}`,
		"in JSON in JSON":               `{"arguments":"{\"key\":\"\\u0073k\\/live-7\"}"}`,
		"in JSON in JSON in JSON":       `{"a":"{\"b\":\"{\\\"c\\\":\\\"sk\\\\u002flive-7\\\"}\"}"}`,
		"in a program":                  `print('\x73k/live-\x37')`,
		"in a line that is torn":        `it said "quoted, and {"key":"sk\u002flive-7`,
		"twice, behind escapes and not": `sk/live-7 \u0073k/live-7`,
		"at an end":                     `sk\u002flive-7\`,
	} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.Open(t, db.Options{})
			s := runs.NewStore(d, runs.Options{})
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			turn := runs.Turn{
				Prompt: &text, Parameters: quoted,
				Output: []byte(`{"content":[` + string(quoted) + `,"stays"]}`),
			}
			if _, err := s.Append(t.Context(), runs.Batch{
				AgentID: "a", RunID: "r",
				Records: []runs.Record{turn},
			}); err != nil {
				t.Fatal(err)
			}
			r := maintenance.Redaction{Pattern: regexp.MustCompile(`sk/live-\d`)}
			if done, err := maintenance.Redact(t.Context(), d, r); err != nil || done.Rows() != 1 {
				t.Fatal(done, err)
			}
			if left, err := maintenance.PlanRedaction(t.Context(), d, r); err != nil || left.Rows() != 0 {
				t.Error(left, err)
			}
			for record, err := range s.Trace(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}) {
				if err != nil {
					t.Fatal(err)
				}
				got := record.Record.(runs.Turn)
				for _, piece := range []string{*got.Prompt, string(got.Parameters), string(got.Output)} {
					if strings.Contains(piece, "live") || !strings.Contains(piece, "*") &&
						!strings.Contains(piece, "[redacted]") {
						t.Errorf("it says %s", piece)
					}
				}
				if !json.Valid(got.Parameters) || !json.Valid(got.Output) ||
					!strings.Contains(string(got.Output), "stays") {
					t.Errorf("the JSON is %s and %s", got.Parameters, got.Output)
				}
				if json.Valid([]byte(text)) && !json.Valid([]byte(*got.Prompt)) {
					t.Errorf("the text is no JSON any more: %s", *got.Prompt)
				}
			}
			if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
				t.Errorf("the file says %v, %v", x.Problems, err)
			}
		})
	}
}

// The encoder of encoding/json escapes these two, which then took more room than they had.
func TestALineSeparatorBesideASecretStays(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := live.NewStore(d, live.Options{})
	if _, err := store.CreateRunWithID(t.Context(), "run", "s", "p"); err != nil {
		t.Fatal(err)
	}
	const text = "one\u2028two\u2029 \\u2028 \u0001"
	if _, _, err := store.RecordEvent(t.Context(), "run", live.TextDelta(text+"sk-secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Redact(t.Context(), d,
		maintenance.Redaction{Pattern: regexp.MustCompile(`sk-\w+`)}); err != nil {
		t.Fatal(err)
	}
	events, err := store.Events(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	var event struct{ Text string }
	if err := json.Unmarshal(events[0].Event.JSON(), &event); err != nil || event.Text != text+"*********" {
		t.Errorf("%q, %v", event.Text, err)
	}
}

// Each look behind escapes takes one away here; the test would take minutes.
func TestATextOfEscapesOfEscapesIsGoneThrough(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := live.NewStore(d, live.Options{})
	if _, err := store.CreateRunWithID(t.Context(), "run", "s",
		`sk-x \u005c`+strings.Repeat("u005c", 40_000)); err != nil {
		t.Fatal(err)
	}
	done, err := maintenance.Redact(t.Context(), d, maintenance.Redaction{Pattern: regexp.MustCompile(`sk-x`)})
	if err != nil || done.Rows() != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// ownWords are, by table, the columns of text that hold words of the program alone.
const ownWords = `
runs started_at_text status outcome ended_at_text
run_records kind cli_kind verdict
run_steps kind state policy
usage_records account
run_append_keys digest
run_spent_keys digest
live_runs status created_at_ms updated_at_ms event_count_exact
live_events type
live_imports digest stamp
live_append_keys sequence digest
agents status boot_id exact
agent_context_queries exact
agent_reservations lease_boot_id
checkpoints state created_at_text lease_boot_id
checkpoint_history ending created_at_text owner_program
worker_runtimes status
workers status
worker_requests intent profile
worker_events kind
worker_entries role
worker_diagnostics severity code
import_sources kind
imports program outcome counts files
import_conflicts kind taken program
import_files state prefix_sha256 records
quarantine what
retention store
retention_pins store
leases lease_boot_id
moves token direction outcome proof
owners token boot_id program
selvedge_file views_digest views
`
