package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/night"
)

// call runs the program inside this process.
func call(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	exit = run(args, strings.NewReader(""), &out, &errs)
	return exit, out.String(), errs.String()
}

// unpackTree unpacks a tree of the original run store, such as small, and gives its folder.
func unpackTree(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	packed := filepath.Join("..", "..", "testdata", "legacy", "runs", name+".tar.gz")
	if out, err := exec.Command("tar", "-xzf", packed, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return dir
}

// imported gives a file with a tree in it.
func imported(t *testing.T, tree string) (path string) {
	t.Helper()
	path = dbtest.Path(t)
	if exit, _, stderr := call(t, "--db", path, "import", "runs", unpackTree(t, tree)); exit != 0 && exit != 3 {
		t.Fatalf("import: exit %d: %s", exit, stderr)
	}
	return path
}

// agentsFile gives a file with an agent of which everything is known, and which has reserved its
// thread, and a plain one.
func agentsFile(t *testing.T) string {
	t.Helper()
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	registry := agents.NewRegistry(d, agents.Options{})
	_, err = registry.TryReserveThread(t.Context(), "main", func(string) (e agents.Entry, err error) {
		return e, json.Unmarshal([]byte(`{"session_id":"agent-full","client_instance_id":"c","native_actor_key":"k","native_parent_actor_key":"p",
			"native_instance_key":"i","heddle_session_id":"s","thread_id":"t","thread":"main","pid":1,"boot_id":"b","liveness_path":"/l",
			"heartbeat_at":"2026-05-20T11:00:00Z","anchor_state":"a","anchor_root":"r","reservation_token":"o","path":"/w","base_state":"b",
			"started_at":"2026-05-20T11:00:00Z","provider":"p","model":"m","harness":"h","thinking_level":"l","usage_summary":{"input_tokens":1,
			"output_tokens":2,"reasoning_tokens":3,"tool_calls":4,"cost_micros_usd":5},"last_progress_at":"2026-05-20T11:00:00Z",
			"report_flush_state":"f","attach_reason":"w","attach_precedence":["x"],"winning_attach_rule":"x","probe_source":"y",
			"probe_confidence":0.5,"status":"active","completed_at":"2026-05-20T11:00:00Z",
			"context_queries":[{"path":"q","scope":"symbol:z","queried_at":"2026-05-20T11:00:00Z"}]}`), &e)
	})
	if err == nil {
		err = registry.Save(t.Context(), agents.Entry{SessionID: "agent-plain", Status: agents.Active})
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// liveFile gives a file with a live run of which everything is known.
func liveFile(t *testing.T) string {
	t.Helper()
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	store := live.NewStore(d, live.Options{})
	run, err := store.CreateRun(t.Context(), "session-1", "fix tests")
	for _, event := range []live.Event{
		live.AgentStart("fix tests"), live.AgentEnd("done"),
		live.ErrorEvent("late"),
	} {
		if err == nil {
			_, _, err = store.RecordEvent(t.Context(), run.ID, event)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// checkpointsFile gives a file with runs that wait and one that was claimed.
func checkpointsFile(t *testing.T) string {
	t.Helper()
	return checkpointsOf(t, "small")
}

// checkpointsOf gives a file with the runs of a tree.
func checkpointsOf(t *testing.T, tree string) string {
	t.Helper()
	dir, path := t.TempDir(), dbtest.Path(t)
	packed := filepath.Join("..", "..", "testdata", "legacy", "checkpoints", tree+".tar.gz")
	if out, err := exec.Command("tar", "-xzf", packed, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if exit, _, stderr := call(t, "--db", path, "import", "checkpoints", dir); exit != 0 &&
		exit != kindPartial.exit {
		t.Fatalf("import: exit %d: %s", exit, stderr)
	}
	return path
}

// workersFile gives a file with the workers of a tree.
func workersFile(t *testing.T, tree string) string {
	t.Helper()
	dir, path := t.TempDir(), dbtest.Path(t)
	packed := filepath.Join("..", "..", "testdata", "legacy", "workers", tree+".tar.gz")
	if out, err := exec.Command("tar", "-xzf", packed, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if exit, _, stderr := call(t, "--db", path, "import", "auto", dir, "--yes"); exit != 0 &&
		exit != kindPartial.exit {
		t.Fatalf("import: exit %d: %s", exit, stderr)
	}
	return path
}

// reservationsFile gives a file in which two things are reserved.
func reservationsFile(t *testing.T) string {
	t.Helper()
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	for _, name := range []string{"8080", "8081"} {
		o := db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: time.Hour}, Note: "the page"}
		if _, err := d.Reserve(t.Context(), "port", name, o); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestAReservationIsListedAndReleasedOnce(t *testing.T) {
	path := reservationsFile(t)
	exit, stdout, stderr := call(t, "--db", path, "reservations", "list")
	if exit != 0 || strings.Count(stdout, "held") != 2 || !strings.Contains(stdout, fmt.Sprint(os.Getpid())) {
		t.Errorf("list: exit %d: %s%s", exit, stdout, stderr)
	}
	for _, c := range []struct {
		exit int
		args []string
	}{
		{kindNotFound.exit, []string{"port", "8080", "--epoch", "99"}},
		{0, []string{"port", "8080"}},
		{kindNotFound.exit, []string{"port", "8080"}},
	} {
		if exit, stdout, stderr := call(t, append([]string{"--db", path, "reservations", "release"},
			c.args...)...); exit != c.exit {
			t.Errorf("release %q: exit %d: %s%s", c.args, exit, stdout, stderr)
		}
	}
}

// showEach are the calls that show the first workers of a file.
func showEach(t *testing.T, path string) (calls [][]string) {
	t.Helper()
	_, stdout, _ := call(t, "--db", path, "workers", "list", "--json", "--all")
	var list struct {
		Items []struct {
			RuntimeID string `json:"runtime_id"`
			WorkerID  string `json:"worker_id"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	for _, w := range list.Items[:min(len(list.Items), 60)] {
		calls = append(calls, []string{"--db", path, "workers", "show", w.WorkerID, "--runtime", w.RuntimeID})
	}
	return calls
}

// uncheckedFile is a file with rows from before there were checksums.
func uncheckedFile(t *testing.T) string {
	t.Helper()
	path := agentsFile(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Write(t.Context(), "take the checksums away", func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE agents SET checksum = NULL")
		return err
	})
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// contestedFile is a file with two runs of three that the old program finished after they were
// written to here.
func contestedFile(t *testing.T) string {
	t.Helper()
	dir, path := t.TempDir(), dbtest.Path(t)
	for _, run := range []string{"r-1", "r-2", "r-3"} {
		if err := os.WriteFile(filepath.Join(dir, run+".json"), []byte(`{"run_id": "r"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call(t, "--db", path, "import", "checkpoints", dir)
	registry := filepath.Join(t.TempDir(), "agents")
	entry := "session_id = \"a-1\"\nthread = \"main\"\nbase_state = \"b\"\n" +
		"started_at = \"2026-05-20T11:00:00Z\"\nstatus = \"active\"\n"
	if err := errors.Join(os.Mkdir(registry, 0o700),
		os.WriteFile(filepath.Join(registry, "a-1.toml"), []byte(entry), 0o600)); err != nil {
		t.Fatal(err)
	}
	call(t, "--db", path, "import", "agents", registry)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Write(t.Context(), "write to the runs", func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE checkpoints SET changes = 2")
		return err
	})
	if err == nil {
		err = agents.NewRegistry(d, agents.Options{}).LogContextQuery(t.Context(), "a-1",
			agents.ContextQuery{Path: "p"})
	}
	if err := errors.Join(err, d.Close(), os.Remove(filepath.Join(dir, "r-1.json")),
		os.Remove(filepath.Join(dir, "r-2.json"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(registry, "a-1.toml")); err != nil {
		t.Fatal(err)
	}
	if exit, _, stderr := call(t, "--db", path, "import", "agents", registry); exit != 3 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	if exit, _, stderr := call(t, "--db", path, "import", "checkpoints", dir); exit != 3 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	return path
}

func TestList_MarksContested(t *testing.T) {
	path := contestedFile(t)
	for _, args := range [][]string{
		{"checkpoints", "list"},
		{"checkpoints", "show", "r-1"},
		{"agents", "list"},
		{"agents", "show", "a-1"},
	} {
		_, stdout, stderr := call(t, append([]string{"--db", path}, args...)...)
		if !strings.Contains(stdout, "contested") ||
			!strings.Contains(stderr, "imports resolve ID --take old, or ours") {
			t.Errorf("%q says\n%s%s", args, stdout, stderr)
		}
	}
	if _, stdout, stderr := call(t, "--db", path, "checkpoints", "show", "r-3"); strings.Contains(stdout+stderr,
		"imports resolve") {
		t.Errorf("of a run that nobody disputes:\n%s%s", stdout, stderr)
	}
}

func TestAnswersHaveTheDocumentedFieldsAndNoOthers(t *testing.T) {
	odd, file := unpackTree(t, "awkward"), imported(t, "awkward")
	fresh, copied := dbtest.Path(t), filepath.Join(t.TempDir(), "copy.db")
	broken := filepath.Join(t.TempDir(), "broken.sqlite")
	if err := os.WriteFile(broken, spoiledFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	unchecked := uncheckedFile(t)
	export, registry := filepath.Join(t.TempDir(), "out"), agentsFile(t)
	contested, dropped := contestedFile(t), imported(t, "awkward")
	if exit, _, stderr := call(t, "--db", contested, "imports", "resolve", "r-1", "--take", "ours"); exit != 0 {
		t.Fatal(stderr)
	}
	waiting, reserved, kept := checkpointsFile(t), reservationsFile(t), imported(t, "small")
	asking := waitingRuns(t)
	// so that there is a pin to show
	if exit, _, stderr := call(t, "--db", kept, "runs", "pin", "run-1", "--agent", "agent-b"); exit != 0 {
		t.Fatal(stderr)
	}
	valued := yesterday(t)
	workers, fewWorkers := workersFile(t, "typical"), workersFile(t, "small")
	migrated := checkpointsOf(t, "small") // with a copy from before, as up leaves one
	if err := os.WriteFile(migrated+".schema-1.bak", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	calls := map[string][][]string{
		"up":           {{"--db", fresh, "up", "--show-sql"}},
		"down":         {{"--db", checkpointsFile(t), "down", "--to", "1", "--yes", "--show-sql"}},
		"restore":      {{"--db", dbtest.Path(t), "restore", waiting}},
		"status":       {{"--db", file, "status"}, {"--db", movedFile(t), "status"}},
		"version":      {{"version"}},
		"import":       {{"--db", dbtest.Path(t), "import", "auto", odd, "--yes"}},
		"verify":       {{"--db", file, "verify", "auto", odd}, {"--db", fresh, "verify", "auto", odd}},
		"export":       {{"--db", file, "export", "runs", export}},
		"imports list": {{"--db", file, "imports", "list"}},
		"imports show": {{"--db", contested, "imports", "show", "4"}},
		"imports conflicts": {
			{"--db", contestedFile(t), "imports", "conflicts"},
			{"--db", contestedFile(t), "imports", "conflicts", "--limit", "1"},
		},
		"imports resolve":  {{"--db", contestedFile(t), "imports", "resolve", "r-1", "--take", "old"}},
		"quarantine list":  {{"--db", file, "quarantine", "list"}},
		"quarantine show":  {{"--db", file, "quarantine", "show", "1"}},
		"quarantine retry": {{"--db", file, "quarantine", "retry", "1"}},
		"quarantine drop":  {{"--db", dropped, "quarantine", "drop", "--what", "line", "--yes"}},
		"check":            {{"--db", file, "check"}, {"--db", broken, "check"}, {"--db", unchecked, "check"}},
		"health":           {{"--db", file, "health"}},
		"salvage":          {{"--db", unchecked, "salvage", filepath.Join(t.TempDir(), "salvaged.db")}},
		"move":             {{"--db", withOwnTable(t), "move", "--to", filepath.Join(t.TempDir(), "moved.db")}},
		"doctor":           {{"--db", checkpointsFile(t), "doctor", "--fix"}},
		"redact":           {{"--db", migrated, "redact", "--pattern", "approve", "--dry-run"}},
		"backup":           {{"--db", file, "backup", copied}},
		"stats":            {{"--db", file, "stats"}},
		"query":            {{"--db", file, "query", "SELECT 1"}},
		"datasette":        {{"--db", file, "datasette"}},
		"runs list":        {{"--db", file, "runs", "list"}},
		"runs show": {
			{"--db", file, "runs", "show", "bad-utf8-line"},
			{"--db", file, "runs", "show", "duplicate-index-key"},
		},
		"runs tail": {{"--db", file, "runs", "tail", "duplicate-index-key"}},
		"agents list": {
			{"--db", registry, "agents", "list", "--limit", "1"},
			{"--db", registry, "agents", "list"},
			{"--db", contested, "agents", "list"},
		},
		"agents show": {
			{"--db", registry, "agents", "show", "agent-full"},
			{"--db", contested, "agents", "show", "a-1"},
		},
		"agents reap":    {{"--db", registry, "agents", "reap", "--thread", "none"}},
		"agents release": {{"--db", registry, "agents", "release", "agent-plain"}},
		"workers list":   {{"--db", workers, "workers", "list"}},
		"workers show":   showEach(t, workers),
		"workers tail": {{
			"--db", fewWorkers, "workers", "tail", "--runtime", "runtime-fs-authority",
			"--all",
		}},
		"live list": {{"--db", liveFile(t), "live", "list"}},
		"live show": {{"--db", liveFile(t), "live", "show", "run-"}},
		"live tail": {{"--db", liveFile(t), "live", "tail", "run-"}},
		"checkpoints list": {
			{"--db", waiting, "checkpoints", "list", "--limit", "1"},
			{"--db", waiting, "checkpoints", "list", "--all"},
			{"--db", contested, "checkpoints", "list"},
		},
		"checkpoints show": {
			{"--db", waiting, "checkpoints", "show", "claimed"},
			{"--db", contested, "checkpoints", "show", "r-2"},
			{"--db", checkpointsOf(t, "awkward"), "checkpoints", "show", "torn"},
		},
		// it takes the claim that show shows
		"checkpoints recover": {{"--db", checkpointsFile(t), "checkpoints", "recover", "--imported"}},
		"state list": {
			{"--db", valued, "state", "list", "--limit", "1"},
			{"--db", valued, "state", "list"},
		},
		"state get":   {{"--db", valued, "state", "get", "theme", "--owner", "ada"}},
		"state set":   {{"--db", valued, "state", "set", "theme", "1", "--owner", "ada"}},
		"state pin":   {{"--db", valued, "state", "pin", "model"}},
		"state unpin": {{"--db", valued, "state", "unpin", "model"}},
		"reservations list": {
			{"--db", reserved, "reservations", "list", "--limit", "1"},
			{"--db", reserved, "reservations", "list"},
		},
		"reservations release": {{"--db", reserved, "reservations", "release", "port", "8080"}},
		"retention set": {{
			"--db", kept, "retention", "set", "runs", "--max-age", "1h", "--keep", "2",
			"--max-bytes", "1MB",
		}},
		"retention show": {{"--db", kept, "retention", "show"}},
		"gc":             {{"--db", kept, "gc", "runs", "--keep", "1"}},
		"compact":        {{"--db", kept, "compact"}},
		"scopes list":    {{"--db", kept, "scopes", "list"}},
		"answer":         {{"--db", waitingRuns(t), "answer", "deploy-42", "gate", "approved"}},
		"cancel":         {{"--db", asking, "cancel", "deploy-42"}},
		"effects list":   {{"--db", asking, "effects", "list", "deploy-41", "--limit", "1"}},
		"effects settle": {{"--db", waitingRuns(t), "effects", "settle", "deploy-41", "post-0", "done"}},
		"failed":         {{"--db", asking, "failed"}},
		"needs": {
			{"--db", waitingRuns(t), "needs", "--limit", "1"}, {"--db", waitingRuns(t), "needs"},
		},
		"runs pin":          {{"--db", kept, "runs", "pin", "run-2"}},
		"runs unpin":        {{"--db", kept, "runs", "unpin", "run-2"}},
		"runs adopt":        {{"--db", kept, "runs", "adopt"}},
		"runs recover":      {{"--db", kept, "runs", "recover"}},
		"agents pin":        {{"--db", registry, "agents", "pin", "agent-plain"}},
		"agents unpin":      {{"--db", registry, "agents", "unpin", "agent-plain"}},
		"agents recover":    {{"--db", registry, "agents", "recover"}},
		"checkpoints pin":   {{"--db", waiting, "checkpoints", "pin", "claimed"}},
		"checkpoints unpin": {{"--db", waiting, "checkpoints", "unpin", "claimed"}},
		"workers pin": {{
			"--db", fewWorkers, "workers", "pin", "worker-00000001", "--runtime", "runtime-fs-authority",
		}},
		"workers unpin": {{
			"--db", fewWorkers, "workers", "unpin", "worker-00000001", "--runtime", "runtime-fs-authority",
		}},
		"live pin":     {{"--db", liveFile(t), "live", "pin", "run-"}},
		"live unpin":   {{"--db", liveFile(t), "live", "unpin", "run-"}},
		"live recover": {{"--db", liveFile(t), "live", "recover"}},
		"delete":       {{"--db", checkpointsFile(t), "delete", "checkpoints", "claimed", "--yes"}},
		"completion":   {{"completion", "bash"}},
		"cost":         costCalls(t),
		"help":         {{"help", "up"}},
		"search": {
			{"--db", nightFile(t), "search", "build", "--limit", "1"}, {"--db", nightFile(t), "search", "build"},
		},
		"report": {{"--db", nightFile(t), "report", "nightly-done"}},
		"tonight": {
			{"--db", waitingRuns(t), "tonight"},
			{"--db", waiting, "tonight"},
			{"--db", contested, "tonight"},
			{"--db", asking, "tonight"},
		},
	}
	answers := answers()
	for _, name := range slices.Sorted(maps.Keys(answers)) { // up comes before verify
		answer := answers[name]
		if name == "serve" { // it ends when it is interrupted: see TestServe_ShowsPagesUntilItIsKilled
			continue
		}
		if calls[name] == nil {
			t.Errorf("%s is called nowhere here: add calls of it that print all fields of its answer", name)
			continue
		}
		documented := documentedOf(answer)
		seen := map[string]any{}
		for _, args := range calls[name] {
			for _, stdout := range printed(t, append(args, "--json")) {
				var value any
				if err := json.Unmarshal([]byte(stdout), &value); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				collect(seen, value, "", documented)
			}
		}
		for _, path := range slices.Sorted(maps.Keys(seen)) {
			if kind, ok := documented[path]; !ok {
				t.Errorf("%s prints %s, which is not documented", name, path)
			} else if seen[path] != nil {
				t.Errorf("%s prints %s as %v, which is documented as %s", name, path, seen[path], kind)
			}
		}
		optional := regexp.MustCompile(`^(parts|differs\[\]|left_out\[\]|followed\[\]|apart\[\]|` +
			`quarantined\[\]|ignored\[\]|unknown\[\]|saw|readable|proof)`)
		for _, path := range slices.Sorted(maps.Keys(documented)) {
			inTree := reflect.TypeOf(answer) == reflect.TypeFor[treeAnswer]() && optional.MatchString(path) &&
				(name != "verify" || !strings.HasPrefix(path, "proof"))
			// what it makes is whole
			wholeAgain := name == "salvage" && strings.HasPrefix(path, "problems[]")
			// says that it removes or adds rows
			noStep := name == "up" && strings.HasPrefix(path, "tables[]")
			// which is why they are listed
			undecided := name == "imports conflicts" && strings.HasPrefix(path, "items[].decision.")
			// or it is no move
			theSame := name == "move" && strings.HasPrefix(path, "differs[]")
			// see TestPostgres_DoctorNamesWhatStopsServer
			ofServer := name == "health" && strings.HasPrefix(path, "server")
			if _, ok := seen[path]; !ok && !theSame && !ofServer && !inTree && !noStep && !wholeAgain && !undecided {
				t.Errorf("%s does not print %s, which is documented", name, path)
			}
		}
	}
}

// documentedOf are the kinds of an answer's fields, by their paths.
func documentedOf(answer any) map[string]string {
	documented := map[string]string{}
	for _, f := range fieldsOf(reflect.TypeOf(answer), "") {
		documented[f.path] = f.kind
	}
	return documented
}

// withOwnTable gives a file in which its user has made a table.
func withOwnTable(t *testing.T) string {
	path := checkpointsOf(t, "small")
	pool, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pool.Exec(`CREATE TABLE notes (text TEXT)`)
	if err = errors.Join(err, pool.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// printed are the JSON values that a call prints; of a tail the first two.
func printed(t *testing.T, args []string) []string {
	t.Helper()
	if slices.Contains(args, "tail") {
		return someLines(t, 2, args...)
	}
	_, stdout, stderr := call(t, args...)
	if stdout == "" {
		t.Logf("%v: %s", args, stderr)
		return nil
	}
	return []string{stdout}
}

// hasAny reports whether a path begins so.
func hasAny(paths map[string]string, beginning string) bool {
	for path := range paths {
		if strings.HasPrefix(path, beginning) {
			return true
		}
	}
	return false
}

// fits reports whether a value of JSON is of a documented kind.
func fits(value any, kind string) bool {
	kind, orNull := strings.CutSuffix(kind, " or null")
	switch v := value.(type) {
	case nil:
		return orNull || kind == "any"
	case bool:
		return kind == "true or false" || kind == "bool" || kind == "any"
	case float64:
		return kind == "number" || kind == "any"
	case string:
		_, err := time.Parse(time.RFC3339, v)
		return kind == "text" || kind == "any" || kind == "time" && err == nil
	case []any:
		return kind == "list" || kind == "array" || kind == "any"
	}
	return kind == "object" || kind == "any"
}

// collect notes the paths of all members, in the spelling of the documentation, and of each the
// value that does not fit it; it goes no deeper than that.
func collect(seen map[string]any, value any, at string, documented map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			path := at + name
			if hasAny(documented, at+"NAME.") {
				collect(seen, inner, at+"NAME.", documented)
				continue
			}
			if seen[path] == nil {
				seen[path] = nil
				if kind, ok := documented[path]; ok && !fits(inner, kind) {
					seen[path] = fmt.Sprintf("%.60v", inner)
				}
			}
			if documented[path] == "any" || path == "document" || path == "record" ||
				path == "value" || path == "items[].value" {
				continue // the program's own, of any shape
			}
			collect(seen, inner, path+".", documented)
		}
	case []any:
		at = strings.TrimSuffix(at, ".") + "[]."
		deeper := false
		for path := range documented {
			deeper = deeper || strings.HasPrefix(path, at)
		}
		for _, inner := range value {
			if deeper {
				collect(seen, inner, at, documented)
			}
		}
	}
}

// spoiledFile is what is left of a file whose second half was overwritten.
func spoiledFile(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spoiled.db")
	if exit, _, stderr := call(t, "--db", path, "up"); exit != 0 {
		t.Fatal(stderr)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	half := len(content) / 2
	copy(content[half:], bytes.Repeat([]byte("spoiled "), half/8+1))
	return content
}

// costCalls are calls of cost on a file with a run below another one.
func costCalls(t *testing.T) [][]string {
	t.Helper()
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	store := runs.NewStore(d, runs.Options{})
	answer := runs.Unknown{Kind: "model_turn", Raw: json.RawMessage(`{"record":"model_turn","provider":"acme",
"model":"large","usage":{"input_tokens":9,"cache_read_input_tokens":3,"cache_write_input_tokens":2,"output_tokens":4,
"reasoning_output_tokens":1},"cost_usd":0.25}`)}
	answer.Raw = bytes.ReplaceAll(answer.Raw, []byte("\n"), nil)
	for _, b := range []runs.Batch{
		{RunID: "root"}, {RunID: "child", Parent: runs.RunRef{AgentID: "a", RunID: "root"}},
	} {
		b.AgentID, b.Records = "a", []runs.Record{runs.Started{RunID: b.RunID, AgentID: "a"}, answer}
		if _, err := store.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return [][]string{{"--db", path, "cost"}, {"--db", path, "cost", "root", "--tree"}}
}

// movedFile is a file that was moved to another one.
func movedFile(t *testing.T) (path string) {
	t.Helper()
	path = waitingRuns(t)
	if exit, _, stderr := call(t, "--db", path, "move", "--to", filepath.Join(t.TempDir(),
		"moved.db")); exit != 0 {
		t.Fatal(stderr)
	}
	return path
}

// nightFile is a file with the runs of package night.
func nightFile(t *testing.T) (path string) {
	t.Helper()
	path = dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := night.Few(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
