package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
)

// A kind is the stable word for why a command failed, and its exit code.
type kind struct {
	word string
	exit int
}

var (
	kindFailed      = kind{"failed", 1}
	kindUsage       = kind{"usage", 2}
	kindPartial     = kind{"partial", 3}
	kindNotFound    = kind{"not_found", 4}
	kindBusy        = kind{"busy", 5}
	kindUnsupported = kind{"unsupported", 6}
	kindDamaged     = kind{"damaged", 7}
	kindInterrupted = kind{"interrupted", 130}
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// A fault is an error whose kind the command itself knows.
type fault struct {
	kind kind
	hint string
	err  error

	given string   // an ambiguous word,
	meant []string // and what to write for each of its meanings
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// fail returns an error of a kind, with a hint for people.
func fail(k kind, hint, format string, args ...any) error {
	return &fault{kind: k, hint: hint, err: fmt.Errorf(format, args...)}
}

func usage(format string, args ...any) error {
	return fail(kindUsage, "", format, args...)
}

// withHint returns err with a hint for people, which replaces the hint it had.
func withHint(err error, format string, args ...any) error {
	return &fault{kind: classify(err), hint: fmt.Sprintf(format, args...), err: err}
}

// classify is the only place where an error becomes a kind. What db calls corrupt is failed, not
// damaged: damaged is for what check found in the file itself.
func classify(err error) kind {
	if f, ok := errors.AsType[*fault](err); ok && !errors.Is(err, errInterrupted) {
		return f.kind
	}
	for _, k := range kinds {
		if slices.ContainsFunc(k.errs, func(e error) bool { return errors.Is(err, e) }) {
			return k.kind
		}
	}
	return kindFailed
}

// kinds are the kinds of the errors that are not faults. The first match counts.
var kinds = []struct {
	kind kind
	errs []error
}{
	{kindInterrupted, []error{errInterrupted}}, // before busy: an interrupted wait counts as interrupted
	{kindBusy, []error{db.ErrBusy}},
	{kindUnsupported, []error{
		db.ErrSchemaTooNew, db.ErrNotADatabase, db.ErrUnsupported, db.ErrMoved, db.ErrReplaced,
	}},
	{kindFailed, []error{db.ErrIO, db.ErrOutcomeUnknown}}, // also if a server's socket does not exist
	{kindNotFound, []error{db.ErrNotFound, fs.ErrNotExist}},
	{kindUsage, []error{db.ErrInvalid}},
}

func hintOf(err error) string {
	if f, ok := errors.AsType[*fault](err); ok && f.hint != "" {
		return f.hint
	}
	if hint := db.Hint(err); hint != "" {
		return hint
	}
	if errors.Is(err, db.ErrCorrupt) {
		return "see what is wrong with the file: migrate check"
	}
	return ""
}

// heldBy returns the processes that a busy command waited for.
func heldBy(err error) []int {
	if e, ok := errors.AsType[*db.Error](err); ok {
		return e.HeldBy
	}
	return nil
}

// errorAnswer is what an error looks like with --json, on stderr.
type errorAnswer struct {
	Error errorDetail `json:"error"` // what went wrong
}

type errorDetail struct {
	Kind string `json:"kind"` // a stable word, see the table of exit codes
	// the command that failed, as in "runs show"; "migrate" where the command line names none
	Op      string `json:"op"`
	Message string `json:"message"` // one line for people and logs; its wording may change
	Hint    string `json:"hint"`    // what a person can do about it; may be empty
	// with busy, pids of the processes that hold what was waited for, where the system tells
	HeldBy []int `json:"held_by,omitempty"`
}

// report writes the error to stderr and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return 0
	}
	k := classify(err)
	if f, ok := errors.AsType[*fault](err); ok && f.meant != nil {
		f.hint = a.meantHint(f.given, f.meant)
	}
	message := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") // joined errors are lines
	message, hint := a.withoutSecrets(message), a.withoutSecrets(a.pasteable(hintOf(err)))
	if a.json {
		detail := errorDetail{k.word, a.op(), message, hint, heldBy(err)}
		_ = writeJSON(&jsonEscaper{to: a.stderr}, errorAnswer{detail}) // it can be reported nowhere else
		return k.exit
	}
	fmt.Fprintf(a.stderr, "migrate: %s\n", printable(message)) //nolint:errcheck // stderr may be closed
	if hint != "" {
		// The first of several lines introduces the others.
		lines := each(strings.Split(hint, "\n"), printable)
		fmt.Fprintf(a.stderr, "hint: %s\n", strings.Join(lines, "\n  ")) //nolint:errcheck // stderr may be closed
	}
	return k.exit
}

// op returns the name of the command for an error.
func (a *app) op() string {
	if a.running == nil {
		return "migrate"
	}
	return strings.TrimPrefix(a.running.CommandPath(), "migrate ")
}

// pasteable puts the file and the scope in use into the command lines of a hint. The store that
// wrote the hint knows neither.
func (a *app) pasteable(hint string) string {
	const program = "migrate "
	commands := each(newRootCommand(&app{}).Commands(), (*cobra.Command).Name)
	parts := strings.Split(hint, program)
	for i := 1; i < len(parts); i++ {
		word, _, _ := strings.Cut(parts[i], " ")
		if slices.Contains(commands, strings.TrimRight(word, ".,;)")) &&
			(parts[i-1] == "" || strings.HasSuffix(parts[i-1], " ") || strings.HasSuffix(parts[i-1], "(")) {
			if strings.Contains(parts[i], " --db") { // it repeats what was typed
				continue
			}
			in := *a
			if strings.Contains(parts[i], " --scope ") { // it names its own scope
				in.scope = ""
			}
			parts[i] = strings.TrimPrefix(in.commandLine()+" ", program) + parts[i]
		}
	}
	return strings.Join(parts, program)
}
