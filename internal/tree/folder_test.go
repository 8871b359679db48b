package tree

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// A signal must not make a file look as if it could not be read: an import goes on without those.
func TestACallThatASignalInterruptedIsMadeAgain(t *testing.T) {
	f, err := OpenFolder(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	err = f.reach("x", func(*os.Root, string) error {
		if calls++; calls < 3 {
			return &fs.PathError{Op: "statat", Path: "x", Err: syscall.EINTR}
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, which ended with %v", calls, err)
	}
}
