package lock_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"selvedge/internal/lock"
)

// Who may write the folder puts a name of another's file where a lock file will be.
func TestAFileElsewhereIsNeitherLockedNorGivenAway(t *testing.T) {
	for name, link := range map[string]func(string, string) error{"symbolic": os.Symlink, "hard": os.Link} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "a.db")
			for file, mode := range map[string]fs.FileMode{secret: 0o600, path: 0o666} {
				if err := os.WriteFile(file, nil, mode); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(file, mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := link(secret, path+"-lock"); err != nil {
				t.Fatal(err)
			}
			file, err := lock.OpenFile(path + "-lock")
			if err == nil {
				err = file.Close()
			} else if name == "symbolic" {
				err = nil
			}
			if err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file elsewhere has mode %v, %v", info.Mode(), err)
			}
		})
	}
}
