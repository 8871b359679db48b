package legacy_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/test/dbtest"
)

// folderOfARun is a tree of one run.
func folderOfARun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "runs", "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "runs", "a", "r.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestImport_FailingProgressFreesTheFolder(t *testing.T) {
	for name, fails := range map[string]func(){"panic": func() { panic("progress") }, "Goexit": runtime.Goexit} {
		d, dir := dbtest.Open(t, db.Options{}), folderOfARun(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }()
			o := legacy.Options{Progress: func(legacy.Progress) { fails() }}
			_, err := legacy.Import(t.Context(), d, legacy.Runs, dir, o)
			t.Errorf("%s: it returned %v", name, err)
		}()
		<-ended
		if _, err := legacy.Import(t.Context(), d, legacy.Runs, dir, legacy.Options{}); err != nil {
			t.Errorf("%s: the next import: %v", name, err)
		}
	}
}

// An import reads ahead on a goroutine of its own, whose reads tell the observer.
func TestImport_FailureWhileReadingAheadIsItsError(t *testing.T) {
	const reads = "look files up"
	for name, fails := range map[string]func(){"panic": func() { panic("observer") }, "Goexit": runtime.Goexit} {
		var fail bool
		d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
			if fail && o.Why == reads {
				fails()
			}
		}})
		dir := folderOfARun(t)
		fail = true
		_, err := legacy.Import(t.Context(), d, legacy.Runs, dir, legacy.Options{})
		if _, panicked := errors.AsType[*db.Panic](err); err == nil || panicked != (name == "panic") {
			t.Errorf("%s: %v", name, err)
		}
		fail = false
		if _, err := legacy.Import(t.Context(), d, legacy.Runs, dir, legacy.Options{}); err != nil {
			t.Errorf("%s: the next import: %v", name, err)
		}
	}
}
