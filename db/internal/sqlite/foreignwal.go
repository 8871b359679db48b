package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/pages"
)

// checkWAL refuses a WAL of another file, which a killed program left and SQLite would write into the one that lies here now. database
// is nil where none does. SQLite has opened neither.
func checkWAL(path string, database io.ReaderAt) (err error) {
	wal, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // SQLite says what it can't read
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(wal, err) }()
	foreign, err := pages.Foreign(database, wal)
	if err != nil || !foreign {
		return err
	}
	info, err := wal.Stat()
	if err != nil {
		return err
	}
	here := "the file that lies here now is another, such as a backup or an older copy"
	if database == nil {
		here = "that file is not here"
	}
	name := filepath.Base(wal.Name())
	return &engine.Failure{
		Kind: engine.ErrReplaced,
		Hint: fmt.Sprintf("nothing was changed. To go on with what lies here, move %s away; for the commits in it put the file back that it belongs to", name) +
			"; a backup is put in place of a file with: migrate restore",
		Err: fmt.Errorf("%s (%d bytes, written at %s) was left by a program that was killed and belongs to the file that it had open; %s",
			wal.Name(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), here),
	}
}
