package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"selvedge/db"
)

// How commands open the file.
var (
	toRead  = db.Options{ReadOnly: true}                    // what the stores can read: this program's schema
	toLook  = db.Options{ReadOnly: true, AnySchema: true}   // any schema
	toWrite = db.Options{MustExist: true, KeepSchema: true} // for writing, this program's schema
)

// on returns the run function of a command that opens the file.
func (a *app) on(
	how db.Options, work func(ctx context.Context, d *db.DB, args []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return a.with(c.Context(), how, func(d *db.DB) error { return work(c.Context(), d, args) })
	}
}

// with opens the file, runs fn and closes it.
func (a *app) with(ctx context.Context, o db.Options, fn func(*db.DB) error) (err error) {
	var d *db.DB
	opening, opened := a.opening(ctx)
	defer opened()
	err = a.patiently(ctx, o, func(o db.Options) (err error) {
		d, err = db.Open(opening, a.address(), o)
		return err
	})
	if err != nil {
		return a.openFault(err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if !o.ReadOnly {
		defer func() { err = a.fullDisk(err) }()
		if !a.onServer() { // a server limits the wait itself
			defer a.watchWaits(ctx, d)()
		}
	}
	if o.ReadOnly {
		s, err := d.Schema(ctx)
		if err == nil && s.Moved {
			a.note("note: it is at %s now; this is what it held before", s.MovedTo)
		}
	}
	return fn(d)
}

// fullDisk adds, to the error of a command that found the file's disk full, which command makes
// room there.
func (a *app) fullDisk(err error) error {
	if !errors.Is(err, db.ErrFull) || a.op() == "gc" {
		return err
	}
	return withHint(err, "%s; what retention does not keep goes with: migrate gc --apply", hintOf(err))
}

// openFault adds, to the error of a file or a server that can't be opened, what can be done about
// it on the command line.
func (a *app) openFault(err error) error {
	up, onFile := "migrate up", !a.onServer()
	info, stat := os.Stat(a.path)
	there := onFile && stat == nil
	if onFile {
		up = fmt.Sprintf("migrate --db %s up", shellWord(a.path))
	}
	switch {
	case a.nothingThere(err) && a.op() == "verify":
		return withHint(err, "bring the tree in with: %s",
			a.commandLine(append([]string{"import"}, a.given...)...))
	case a.nothingThere(err):
		return withHint(err, "make it with: %s", up)
	case errors.Is(err, db.ErrNotFound):
		if command := a.createdb(); command != "" {
			return withHint(err, "make the database with: %s", command)
		}
	case errors.Is(err, db.ErrInvalid) && there && !info.Mode().IsRegular():
		return &fault{kind: kindUnsupported, hint: "--db names the file itself", err: err}
	// An older schema. The error of an address that can't be parsed has no hint.
	case errors.Is(err, db.ErrInvalid) && (there || !onFile && db.Hint(err) != ""):
		hint := "bring it to this program's schema with: " + up
		if a.op() == "import" {
			hint += "\nor on the way: " + a.typed("--up")
		}
		return &fault{kind: kindFailed, hint: hint, err: err}
	case errors.Is(err, db.ErrNotADatabase) && there && info.Size() == 0:
		return withHint(err, "finish it with: %s", up)
	case errors.Is(err, db.ErrFull) && there:
		return withHint(err, roomFirst)
	}
	if hint, _, has := strings.Cut(db.Hint(err), "; Options."); has { // a command has no options
		return withHint(err, "%s", hint)
	}
	return err
}

// shellWord quotes a word for a POSIX shell if it needs quotes.
func shellWord(word string) string {
	if strings.IndexFunc(word, func(r rune) bool { return !shown(r) }) >= 0 {
		return escapedWord(word)
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-+,:@%=", r)
	}
	if word != "" && word[0] != '=' && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	if strings.Contains(word, "'") && !strings.ContainsAny(word, "\"$`\\!") {
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// escapedWord returns on one line a word that has line feeds in it, or characters that no terminal
// shows. It writes the word as $'…', which is in POSIX since 2024 and was in bash, zsh and ksh
// before.
func escapedWord(word string) string {
	var out strings.Builder
	for i, r := range word {
		_, size := utf8.DecodeRuneInString(word[i:])
		switch {
		case r == '\\' || r == '\'':
			out.WriteString(`\` + string(r))
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\t':
			out.WriteString(`\t`)
		case shown(r):
			out.WriteRune(r)
		default:
			for _, c := range []byte(word[i : i+size]) {
				fmt.Fprintf(&out, `\%03o`, c)
			}
		}
	}
	return "$'" + out.String() + "'"
}

// absolute returns the path by which db will name the file, if nothing exists there yet.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	return abs, nil
}

// missingOrEmpty reports whether the file is still to be created. SQLite's own -wal may hold all of
// an empty file, but not of ours: the header of ours is written when the file is created.
func missingOrEmpty(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return info.Mode().IsRegular() && info.Size() == 0, nil
}
