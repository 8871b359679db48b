package legacy

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/runs/live"
	"selvedge/test/replay"
)

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
	report, err := Import(context.Background(), d, Live, dir, Options{Scope: scope})
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

func compareSessions(t *testing.T, dir string, expected []byte) {
	answers := importSessions(t, dir, expected)
	problems, tally := answers.compare(t, expected)
	for _, p := range problems {
		t.Error(p)
	}
	t.Logf("%d files compared: %s", len(answers.files), tally)
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

// walkLive calls visit for the files of sessions.
func walkLive(dir string, visit func(path string) error) error {
	l, err := Live.layout()
	if err != nil {
		return err
	}
	f, err := tree.OpenFolder(dir, Options{})
	if err != nil {
		return err
	}
	return l.Walk(f, visit, func(string, string) error { return nil })
}

// laterFile is the file that a session has in later versions, or had.
func laterFile(dir, id string) string {
	name := "id_" + base64.RawURLEncoding.EncodeToString([]byte(id)) + ".json"
	for _, path := range []string{"v1/sessions/" + name, "v1/runs/" + name, "runs/" + id + ".json"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			return path
		}
	}
	return ""
}

func decodeNumbers(t *testing.T, text []byte, into any) {
	t.Helper()
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if err := in.Decode(into); err != nil {
		t.Fatal(err)
	}
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
		record, _ := plain.MarshalJSON()
		if event, known, err := replay.LiveEvent(value); err == nil && known {
			record = append(bytes.TrimSuffix(record, append(e.Event.JSON(), '}')), replay.LiveEventText(event)...)
			record = append(record, '}')
		}
		out = append(append(out, record...), '\n')
	}
	return hex.EncodeToString(digest(out))
}

// roundTrip imports the whole tree, sees that a second import and a verification find nothing new,
// and that an export has every record byte for byte and changes nothing when it is imported.
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
		t.Errorf("a second import names %d rows of the quarantine, the first %d", len(again.Quarantined),
			len(report.Quarantined))
	}
	verified, err := Verify(ctx, d, Live, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := verified.Counts["run"]; c.New != 0 || c.Changed != 0 ||
		c.Already != report.Counts["run"].New+report.Counts["run"].Already {
		t.Errorf("verify counts runs as %+v, the import as %+v", c, report.Counts["run"])
	}
	out := filepath.Join(t.TempDir(), "export")
	exported, err := Export(ctx, d, Live, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	apart := int64(0)
	for _, r := range exported.LeftOut {
		if strings.HasPrefix(r.Reason, "a run of session") {
			apart++
		}
	}
	if got, want := exported.Counts["run"].New+apart,
		report.Counts["run"].New+report.Counts["run"].Already; got != want {
		t.Errorf("%d records are here, %d exported or left out: %v", want, got, exported.LeftOut)
	}
	compareBytes(t, dir, out)
	if c := importLive(t, d, "", out).Counts["run"]; c.Already != c.Read {
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
	})
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Contains(all, []byte(`"run_records"`))
	err = walkLive(out, func(path string) error {
		text, err := os.ReadFile(filepath.Join(out, path))
		if err != nil {
			return err
		}
		var elements []json.RawMessage
		damage := json.Unmarshal(text, &elements)
		if given, err := os.ReadFile(filepath.Join(dir, path)); err == nil && bytes.Equal(given, text) {
			return nil // also a file that nothing could be read of
		}
		if damage != nil {
			t.Errorf("the export has damage in %q: %v", path, damage)
		}
		for _, record := range elements {
			whole := record
			if later { // they stood deeper in their documents
				record = bytes.ReplaceAll(record, []byte("\n  "), []byte("\n    "))
			}
			if !bytes.Contains(all, record) && !bytes.Contains(all, whole) {
				t.Errorf("%q was exported with other bytes: %.200s", path, whole)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sessionFile is the name that the original gives the file of a session's runs.
func sessionFile(sessionID string) string {
	name := strings.NewReplacer("/", "_", `\`, "_").Replace(sessionID)
	return strings.ReplaceAll(name, "..", "_") + ".json"
}

// recordsIn reads a file that the original can read: an array of records, or a document with it.
func recordsIn(text []byte) (records []live.RunRecord) {
	var document struct {
		Records []live.RunRecord `json:"run_records"`
	}
	if json.Unmarshal(text, &document) == nil {
		return document.Records
	}
	_ = json.Unmarshal(text, &records) // the caller counts them
	return records
}
