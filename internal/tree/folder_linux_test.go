package tree

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpen_UnlistedFolderIsPermissionDenied(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Dir(dir), dir} { // another user passes through
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "a"), 0); err != nil {
		t.Fatal(err)
	}
	why := make(chan string)
	go func() {
		runtime.LockOSThread() // to the end: the thread goes with the goroutine, and its user with it
		if os.Geteuid() == 0 {
			_, _ = unix.SetfsuidRetUid(65534) // root may list any folder
		}
		f, err := OpenFolder(dir, Options{})
		if err == nil {
			_, _, err = f.Open("a")
		}
		why <- f.Why("a", err)
	}()
	if got := <-why; got != "can't be read: permission denied" {
		t.Error(got)
	}
}
