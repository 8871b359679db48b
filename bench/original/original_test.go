package original

import (
	"os"
	"path/filepath"
	"testing"
)

const line = `{"record":"turn","index":0,"verifier_verdict":"pass"}` + "\n"

func TestAppendMakesWhatTheOriginalMakes(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	s := NewRunStore(root)
	for range 2 {
		if err := s.Append("a/b", ".run.", []byte(line), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(root, "a_b", "run.jsonl")
	if got, err := os.ReadFile(path); err != nil || string(got) != line+line {
		t.Errorf("the file holds %q (%v)", got, err)
	}
	for name, want := range map[string]os.FileMode{root: 0o700, filepath.Dir(path): 0o700, path: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", name, info.Mode().Perm(), err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(root, ".nobackup")); err != nil {
		t.Error(err)
	}
}

func TestAppendMendsATornTail(t *testing.T) {
	s := NewRunStore(filepath.Join(t.TempDir(), "runs"))
	for _, lines := range []string{line + `{"torn":`, line} {
		if err := s.Append("a", "r", []byte(lines), WithSync); err != nil {
			t.Fatal(err)
		}
	}
	records, err := s.Trace("a", "r")
	if err != nil || len(records) != 2 {
		t.Errorf("%d records (%v), want 2", len(records), err)
	}
}

func TestListSummarises(t *testing.T) {
	s := NewRunStore(filepath.Join(t.TempDir(), "runs"))
	started := `{"record":"started","run_id":"old","agent_id":"a","intent":"i",` +
		`"started_at":"2021-03-01T08:00:00Z"}` + "\n"
	ended := `{"record":"ended","run_id":"old","agent_id":"a","termination":{"kind":"outcome",` +
		`"status":"success","outcome":{"status":"success"}},"ended_at":"2021-03-01T08:01:00Z"}` + "\n"
	newer := `{"record":"started","run_id":"new","agent_id":"a","intent":"i",` +
		`"started_at":"2022-03-01T08:00:00Z"}` + "\n"
	for run, lines := range map[string]string{"old": started + line + ended, "new": newer, "no start": line} {
		if err := s.Append("a", run, []byte(lines), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List("a")
	if err != nil || len(list) != 2 {
		t.Fatalf("list %v (%v)", list, err)
	}
	if list[0].RunID != "new" || list[0].Status != "in_progress" || list[1].Status != "completed" ||
		list[1].TurnCount != 1 {
		t.Errorf("list %+v", list)
	}
}
