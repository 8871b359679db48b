package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"selvedge/db"
)

// Open returns a handle on a new, empty file, or whatever the engine keeps stores in, and closes
// it when t has ended.
type Open func(t *testing.T) *db.DB

// Shared is how others open what a handle of Open has open.
type Shared struct {
	// Again returns a further handle, and closes it when t has ended.
	Again func(t *testing.T, d *db.DB) *db.DB
	// Process starts another process, which opens the same and runs Serve. nil: nothing is tried
	// across processes.
	Process func(t *testing.T, d *db.DB) Process
}

// A Process runs Serve.
type Process interface {
	Send(line string)               // to its Serve
	Line() (answer string, ok bool) // the next of its answers, without a line feed; ok is false once it is gone
	Kill()                          // ends it with no chance to clean up
}

// Run runs the suite with one handle at a time.
func Run(t *testing.T, open Open) {
	run(t, stores, &engine{open: open})
}

// RunShared runs the suite, with further handles on what Open opened, and with other processes.
func RunShared(t *testing.T, open Open, shared Shared) {
	run(t, stores, &engine{open: open, shared: shared})
}

// Serve is a process's part in the suite: it obeys the lines of in, on its own handle d, and
// answers each on out. It returns when in ends.
func Serve(ctx context.Context, d *db.DB, in io.Reader, out io.Writer) error {
	held := map[string]holding{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		answer, err := serve(ctx, d, held, strings.Split(lines.Text(), "\t"))
		if err != nil {
			answer = "failed: " + strconv.Quote(err.Error())
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return nil
}

// serve runs a line's command: "take STORE SCOPE NAME" answers "won EPOCH" or "lost".
func serve(ctx context.Context, d *db.DB, held map[string]holding, words []string) (string, error) {
	if len(words) != 4 || words[0] != "take" {
		return "", fmt.Errorf("%q is nothing that it could do", words)
	}
	for _, s := range stores {
		if s.name != words[1] || s.holds == nil {
			continue
		}
		h, won, err := s.holds(d, words[2]).take(ctx, words[3])
		if err != nil || !won {
			return "lost", err
		}
		held[strings.Join(words[1:], "\t")] = h
		return "won " + strconv.FormatInt(h.epoch, 10), nil
	}
	return "", fmt.Errorf("no store is called %q", words[1])
}

// An engine is an engine under test.
type engine struct {
	open   Open
	shared Shared
}

// A store describes one store to the suite: its laws, and how its things are held.
type store struct {
	name  string
	laws  []law
	holds func(d *db.DB, scope string) holds // nil: nothing is held there
}

// A law is one thing that must be true. Each is tried in a scope of its own.
type law struct {
	name string
	try  func(t *testing.T, at place)
}

// A place is where a law is tried.
type place struct {
	*engine
	d         *db.DB
	again     *db.DB    // another handle, or nil
	other     *db.DB    // of another file
	processes []process // one other process, or none; the last law about holders kills it
	scope     string
}

// both returns all handles, for callers that race.
func (p place) both() []*db.DB {
	if p.again == nil {
		return []*db.DB{p.d}
	}
	return []*db.DB{p.d, p.again}
}

func run(t *testing.T, stores []store, e *engine) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			at := place{engine: e, d: e.open(t), other: e.open(t)}
			if e.shared.Again != nil {
				at.again = e.shared.Again(t, at.d)
			}
			if e.shared.Process != nil && s.holds != nil {
				at.processes = []process{{e.shared.Process(t, at.d)}}
			}
			for i, law := range s.laws {
				at.scope = fmt.Sprint("scope ", i)
				t.Run(law.name, func(t *testing.T) { law.try(t, at) })
			}
		})
	}
}
