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

// How a command opens the file.
type opening int

const (
	toRead  opening = iota // what the stores can read: this program's schema
	toLook                 // whatever schema it has
	toWrite                // writing, this program's schema
)

// on makes the work of a command that opens the file.
func (a *app) on(
	how opening, work func(ctx context.Context, d *db.DB, args []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return a.with(c.Context(), how, func(d *db.DB) error { return work(c.Context(), d, args) })
	}
}

// with opens the file, runs fn and closes it.
func (a *app) with(ctx context.Context, how opening, fn func(*db.DB) error) error {
	return a.withOptions(ctx, map[opening]db.Options{
		toRead:  {ReadOnly: true},
		toLook:  {ReadOnly: true, AnySchema: true},
		toWrite: {MustExist: true, KeepSchema: true},
	}[how], fn)
}

func (a *app) withOptions(ctx context.Context, o db.Options, fn func(*db.DB) error) (err error) {
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
		if !a.onServer() { // a server bounds the wait itself
			defer a.watchWaits(ctx, d)()
		}
	}
	a.file = d
	defer func() { a.file = nil }()
	return fn(d)
}

// fullDisk says which command makes room on the disk of the file, where one that writes to it found none.
func (a *app) fullDisk(err error) error {
	if !errors.Is(err, db.ErrFull) || a.op() == "gc" {
		return err
	}
	return withHint(err, "%s; what retention does not keep goes with: migrate gc --apply", db.Hint(err))
}

// openFault says what can be done about a file or a server that can't be opened, in the words of the
// command line.
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
		if make := a.createdb(); make != "" {
			return withHint(err, "make the database with: %s", make)
		}
	case errors.Is(err, db.ErrInvalid) && there && !info.Mode().IsRegular():
		return &fault{kind: kindUnsupported, hint: "--db names the file itself", err: err}
	// an older schema; an address that can't be read has no hint
	case errors.Is(err, db.ErrInvalid) && (onFile || db.Hint(err) != ""):
		hint := "bring it to this program's schema with: " + up
		if a.op() == "import" {
			hint += "\nor on the way: " + a.typed("--up")
		}
		return &fault{kind: kindFailed, hint: hint, err: err}
	case errors.Is(err, db.ErrNotADatabase) && there && info.Size() == 0:
		return withHint(err, "finish it with: %s", up)
	case errors.Is(err, db.ErrFull) && there:
		return withHint(err, roomFirst)
	case errors.Is(err, db.ErrUnsupported) && onFile:
		return withHint(err, "keep the file on a local disk")
	}
	return err
}

// shellWord quotes a word for a POSIX shell where it needs that.
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

// escapedWord is a word on one line that has line feeds in it, or what no terminal shows: as
// $'…', which POSIX has since 2024 and bash, zsh and ksh had before.
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

// absolute is the path as db will name the file, where nothing lies there yet.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	return abs, nil
}

// missingOrEmpty reports whether the file is still to be made. SQLite's own -wal may hold all of an
// empty one, but not of ours: its header is written when it is made.
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
