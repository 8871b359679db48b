package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/pages"
)

// checkWAL refuses a WAL that belongs to another file: a killed program left it, and SQLite would
// apply it to the present file. database is nil if there is no file. SQLite has opened neither.
func checkWAL(path string, database io.ReaderAt) (err error) {
	wal, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // SQLite reports it
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
	here := "the file that lies here now is another one, such as a backup or an older copy"
	if database == nil {
		here = "that file does not lie here"
	}
	hint := fmt.Sprintf("for the last commits of the killed program put its file back beside the -wal; to go "+
		"on without them move the -wal away:\nmv %s %s", shellWord(wal.Name()), shellWord(wal.Name()+".old"))
	return engine.Failf(engine.ErrReplaced, hint, "%s (%d bytes, written at %s) was left by a program that was "+
		"killed, and belongs to the file that it had open; %s", wal.Name(), info.Size(),
		info.ModTime().UTC().Format(time.RFC3339), here)
}

// shellWord quotes a word for a POSIX shell.
func shellWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
