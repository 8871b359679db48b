package legacy

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/replay"
	"selvedge/runs/live"
)

// recordedLive is NAME.expected.json.
type recordedLive struct {
	Sessions []struct {
		ID         string
		RunsFile   string          `json:"runs_file"`
		RunRecords json.RawMessage `json:"run_records"`
		List       []string
	}
}

// recordedRuns is what the original makes of a file of its own.
type recordedRuns struct {
	Err    *string
	Loaded int
	Runs   []struct {
		Events       int
		EventsSHA256 string  `json:"events_sha256"`
		LastSequence *uint64 `json:"last_sequence"`
		Snapshot     map[string]any
	}
}

func testLiveTree(t *testing.T, tree replay.Tree) {
	root := t.TempDir()
	if err := tree.Unpack(root); err != nil {
		t.Fatal(err)
	}
	dir := onlyFolder(t, root)
	compareSessions(t, dir, tree.Expected)
	roundTrip(t, dir)
}

func importLive(t testing.TB, d *db.DB, scope, dir string) Report {
	t.Helper()
	report, err := Live{}.Import(context.Background(), d, scope, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range report.Counts {
		if c.Read != c.New+c.Already+c.Changed+c.Quarantined {
			t.Errorf("the counts of %s don't add up: %+v", kind, c)
		}
	}
	return report
}

func onlyFolder(t *testing.T, root string) string {
	t.Helper()
	names, err := os.ReadDir(root)
	if err != nil || len(names) != 1 {
		t.Fatalf("the tree has %d folders: %v", len(names), err)
	}
	return filepath.Join(root, names[0].Name())
}

// compareSessions imports every file by itself, into a scope of its own, and compares what is there then with what the
// original answered.
func compareSessions(t *testing.T, dir string, expected []byte) {
	var recorded recordedLive
	decodeNumbers(t, expected, &recorded)
	d := emptyFile(t)
	tally := replay.Tally{Judged: map[int]int{}}
	for _, s := range recorded.Sessions {
		scope := "session " + s.ID
		if s.RunsFile == "" { // a later version: its document, or else its runs alone
			s.RunsFile = laterFile(dir, s.ID)
		}
		text, err := os.ReadFile(filepath.Join(dir, s.RunsFile))
		if err != nil || s.RunsFile == "" {
			if string(s.RunRecords) != "null" && !bytes.Contains(s.RunRecords, []byte(`"err"`)) {
				t.Errorf("%q: %v, and the original read it", s.ID, err)
			}
			tally.Compared++
			continue
		}
		report := importLive(t, d, scope, treeOf(t, s.RunsFile, text))
		records, err := live.NewStore(d, live.Options{Scope: scope}).Records(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var runs recordedRuns
		if s.RunRecords[0] == '{' {
			decodeNumbers(t, s.RunRecords, &runs)
		}
		switch {
		case runs.Err != nil: // rule 21: what can be read is here, and the quarantine names the rest, or it is a later event
			tally.Judged[21]++
			if len(report.Quarantined) == 0 && !strings.Contains(*runs.Err, "unknown variant") {
				t.Errorf("%q: the original says %s, and nothing is in quarantine", s.ID, *runs.Err)
			}
		case s.RunRecords[0] == '[':
			compareLater(t, s.ID, records, s.RunRecords)
			tally.Compared++
		default:
			judged := compareRuns(t, s.ID, text, records, &runs)
			tally.Judged[3] += judged
			tally.Compared++
		}
	}
	t.Logf("%d files compared: %s", len(recorded.Sessions), tally)
}

func treeOf(t *testing.T, path string, text []byte) string {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func laterFile(dir, id string) string {
	found := ""
	_ = walkLive(dir, func(path string) error {
		if session, _ := liveSession(path); session == id && found == "" {
			found = path
		}
		return nil
	}, func(string, string) error { return nil })
	return found
}

func decodeNumbers(t *testing.T, text []byte, into any) {
	t.Helper()
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if err := in.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func compareLater(t *testing.T, id string, records []live.RunRecord, want json.RawMessage) {
	t.Helper()
	text, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := replay.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := replay.Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	if d := (replay.Comparison{}).Diff(theirs, ours); d != "" {
		t.Errorf("%q: %s", id, d)
	}
}

// compareRuns compares runs with what the original had after restoring them; counts go by rule 3. Ids that can't be one here
// are in quarantine (rule 16).
func compareRuns(t *testing.T, id string, text []byte, records []live.RunRecord, want *recordedRuns) (judged int) {
	t.Helper()
	counts := countsInFile(t, text)
	byID := map[string]*live.RunRecord{}
	for i := range records {
		byID[records[i].Snapshot.ID] = &records[i]
	}
	for _, run := range want.Runs {
		runID := run.Snapshot["id"].(string)
		if db.CheckID("run", runID) != nil {
			judged++
			continue
		}
		ours := byID[runID]
		if ours == nil {
			t.Errorf("%q: run %q is not here", id, runID)
			continue
		}
		delete(byID, runID)
		count := max(counts[runID], uint64(run.Events))
		if run.LastSequence != nil && *run.LastSequence < 1<<63 {
			count = max(count, *run.LastSequence+1)
		}
		if count != uint64(run.Events) {
			judged++
		}
		snapshot := ours.Snapshot
		snapshot.Further = nil
		if snapshot.EventCount != count {
			t.Errorf("%q: run %q has the count %d, not %d", id, runID, snapshot.EventCount, count)
		}
		snapshot.EventCount = uint64(run.Events)
		decoded, err := replay.Decode(snapshot.AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		if d := (replay.Comparison{}).Diff(run.Snapshot, decoded); d != "" {
			t.Errorf("%q: run %q: %s", id, runID, d)
		}
		if got := sumOfEvents(t, ours.Events); got != run.EventsSHA256 {
			t.Errorf("%q: the events of run %q differ", id, runID)
		}
	}
	for runID := range byID {
		t.Errorf("%q: run %q is here, and the original doesn't have it", id, runID)
	}
	return judged
}

func countsInFile(t *testing.T, text []byte) map[string]uint64 {
	t.Helper()
	counts := map[string]uint64{}
	elements, _ := live.ReadFile(text)
	for _, e := range elements {
		counts[e.Record.Snapshot.ID] = e.Record.Snapshot.EventCount
	}
	return counts
}

// sumOfEvents hashes the events as the original writes them.
func sumOfEvents(t *testing.T, events []live.RunEventRecord) string {
	t.Helper()
	var out []byte
	for _, e := range events {
		value, err := replay.Decode(e.Event.JSON())
		if err != nil {
			t.Fatal(err)
		}
		plain := live.RunEventRecord{Sequence: e.Sequence, TimestampMs: e.TimestampMs, Event: e.Event}
		record := plain.AppendJSON(nil)
		if event, known, err := replay.LiveEvent(value); err == nil && known {
			record = append(bytes.TrimSuffix(record, append(e.Event.JSON(), '}')), replay.LiveEventText(event)...)
			record = append(record, '}')
		}
		out = append(append(out, record...), '\n')
	}
	return hex.EncodeToString(sumOf(out))
}

// roundTrip imports the whole tree, sees that a second import and a verification find nothing new, and that an export has
// every record byte for byte and changes nothing when it is imported.
func roundTrip(t *testing.T, dir string) {
	ctx, d := context.Background(), emptyFile(t)
	report := importLive(t, d, "", dir)
	again := importLive(t, d, "", dir)
	for kind, c := range again.Counts {
		if c.New != 0 || c.Changed != 0 || c.Read != report.Counts[kind].Read {
			t.Errorf("a second import counts %s as %+v, the first as %+v", kind, c, report.Counts[kind])
		}
	}
	if len(again.Quarantined) != len(report.Quarantined) {
		t.Errorf("a second import names %d rows of the quarantine, the first %d", len(again.Quarantined), len(report.Quarantined))
	}
	verified, err := Live{}.Verify(ctx, d, "", dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := verified.Counts[kindRun]; c.New != 0 || c.Changed != 0 || c.Already != report.Counts[kindRun].New+report.Counts[kindRun].Already {
		t.Errorf("verify counts runs as %+v, the import as %+v", c, report.Counts[kindRun])
	}
	out := filepath.Join(t.TempDir(), "export")
	exported, err := Live{}.Export(ctx, d, "", out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := exported.Counts[kindRun].New+int64(len(exported.LeftOut)), report.Counts[kindRun].New; got != want {
		t.Errorf("%d runs were imported, %d exported or left out: %v", want, got, exported.LeftOut)
	}
	compareBytes(t, dir, out)
	if c := importLive(t, d, "", out).Counts[kindRun]; c.Already != c.Read {
		t.Errorf("the import of the export counts runs as %+v", c)
	}
	t.Logf("import: %+v, %d in quarantine", report.Counts, len(report.Quarantined))
}

// compareBytes finds every exported record among the bytes of the files that it may have come from.
func compareBytes(t *testing.T, dir, out string) {
	t.Helper()
	var all []byte
	err := walkLive(dir, func(path string) error {
		if text, err := os.ReadFile(filepath.Join(dir, path)); err == nil {
			all = append(all, text...)
		}
		return nil
	}, func(string, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Contains(all, []byte(`"run_records"`))
	err = walkLive(out, func(path string) error {
		text, err := os.ReadFile(filepath.Join(out, path))
		if err != nil {
			return err
		}
		elements, damage := live.ReadFile(text)
		if damage != nil {
			t.Errorf("the export has damage in %q: %s", path, damage)
		}
		for _, e := range elements {
			record := e.Text
			if later { // they stood deeper in their documents
				record = bytes.ReplaceAll(record, []byte("\n  "), []byte("\n    "))
			}
			if !bytes.Contains(all, record) && !bytes.Contains(all, e.Text) {
				t.Errorf("run %q of %q was exported with other bytes", e.Record.Snapshot.ID, path)
			}
		}
		return nil
	}, func(string, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
}
