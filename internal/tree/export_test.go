package tree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMove_TargetTakesNoExistingName(t *testing.T) {
	file := func(path string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(path), 0o600))
	}
	folder := func(path string) error { return file(filepath.Join(path, "x")) }
	for name, c := range map[string]struct{ ours, theirs func(path string) error }{
		"a file over a file":     {file, file},
		"a file over a folder":   {file, folder},
		"a folder over a file":   {folder, file},
		"a folder over a folder": {folder, folder},
	} {
		dir := t.TempDir()
		part, there := filepath.Join(dir, Unfinished), filepath.Join(dir, "n")
		if err := errors.Join(c.ours(filepath.Join(part, "n")), c.theirs(there)); err != nil {
			t.Fatal(err)
		}
		if err := moveUp(part, dir); err == nil {
			t.Errorf("%s: no error", name)
		}
		text, err := os.ReadFile(there)
		if err != nil {
			there = filepath.Join(there, "x")
			text, err = os.ReadFile(there)
		}
		if err != nil || string(text) != there {
			t.Errorf("%s: there is %q, %v", name, text, err)
		}
		if _, err := os.Stat(filepath.Join(part, "n")); err != nil {
			t.Errorf("%s: ours is gone: %v", name, err)
		}
	}
}
