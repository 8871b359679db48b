package agents_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"selvedge/agents"
)

// A folder with many worktrees is read as a whole, and says the same of them.
func TestAWorktreeAmongManyIsFoundThroughLinks(t *testing.T) {
	root, r := t.TempDir(), newRegistry(t)
	at := time.Now()
	folder := filepath.Join(root, "worktrees")
	for i := range 120 {
		path := fmt.Sprintf("%s/wt-%03d", folder, i)
		made := os.MkdirAll(path, 0o700)
		if i%4 == 1 { // it is gone
			made = os.Remove(path)
		}
		if i == 3 || i == 83 { // a link to another
			made = os.Remove(path)
			if made == nil {
				made = os.Symlink(fmt.Sprintf("wt-%03d", i-1), path)
			}
		}
		if made != nil {
			t.Fatal(made)
		}
		e := entry(fmt.Sprintf("agent-%03d", i), agents.Active)
		e.Path, e.StartedAt = &path, at.Add(-time.Duration(i)*time.Second)
		save(t, r, e)
	}
	if err := os.Symlink(folder, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		folder + "/wt-002":       "agent-002", // the newest of two there
		folder + "/wt-003":       "agent-002",
		root + "/link/wt-083":    "agent-082",
		root + "/link/wt-119":    "agent-119",
		folder + "/wt-117":       "agent-117", // compared as it is written
		root + "/link/wt-117":    "",
		folder + "/none":         "",
		folder + "/wt-118/":      "agent-118",
		folder + "/../worktrees": "",
	} {
		e, ok, err := r.FindActiveByPath(ctx, path)
		if err != nil || ok != (want != "") || e.SessionID != want {
			t.Errorf("%s: %q, %v, %v; not %q", path, e.SessionID, ok, err, want)
		}
	}
}
