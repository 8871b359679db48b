package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Without this, a watcher still hears of commits: from the clock, twenty times a second. So nothing
// else would notice.
func TestTheSystemTellsOfWritesOfAnyProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file-wal")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := WatchWrites(path)
	if err != nil {
		t.Fatalf("the system does not tell of writes: %v", err)
	}
	for range 3 {
		if out, err := exec.Command("sh", "-c", `printf x >> "$0"`, path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		select {
		case <-w.Seen:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing was told")
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsNotThereIsNotWatched(t *testing.T) {
	if w, err := WatchWrites(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Errorf("it is watched: %v", w.Close())
	}
}
