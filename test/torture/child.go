package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"selvedge/db"
)

// childVariable tells a process of this program that it is the one to be traced.
const childVariable = "SELVEDGE_TORTURED"

// An ending is how a process that came to its end goes.
type ending string

const (
	closing ending = "close" // it closes its handle
	dying   ending = "die"   // it is killed with the handle open
)

// child runs a script in this process and reports its progress on descriptor 3.
func (sc *script) child(folder string, end ending) error {
	if err := askToBeStopped(); err != nil {
		return err
	}
	out := os.NewFile(linesFd, "lines")
	say := func(format string, args ...any) {
		// One write a line: the tracer reads it from there.
		if _, err := out.WriteString(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ") +
			"\n"); err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	options := db.Options{Synchronous: sc.sync}
	s := &session{folder: folder, kept: map[string]any{}}
	if !sc.closed {
		if err := s.open(ctx, options); err != nil {
			return err
		}
		if sc.setup != nil {
			if err := sc.setup(ctx, s); err != nil {
				return fmt.Errorf("set up: %w", err)
			}
		}
	}
	say("armed")
	unsure := make([]error, len(sc.ops)) // by operation, where the outcome is unknown
	perform := func(i int) {
		if err := sc.perform(ctx, s, i, sc.ops[i].do, say); errors.Is(err, db.ErrOutcomeUnknown) {
			unsure[i] = err
		}
	}
	var crowd sync.WaitGroup
	for i := range sc.ops {
		if sc.crowd {
			crowd.Go(func() { perform(i) })
		} else {
			perform(i)
		}
	}
	crowd.Wait()
	say("looking")
	sc.seeAll(ctx, s, say)
	// it looks for itself now
	if errors.Join(unsure...) != nil && s.close() == nil && s.open(ctx, options) == nil {
		sc.seeAll(ctx, s, say)
		for i, err := range unsure {
			if batch, ok := db.BatchOf(err); ok && sc.ops[i].repeat != nil {
				again := func(ctx context.Context, s *session) error { return sc.ops[i].repeat(ctx, s, batch) }
				_ = sc.perform(ctx, s, i, again, say)
			}
		}
	}
	say("end")
	if end == dying {
		select {} // the tracer kills
	}
	_ = s.close() // a fault may be left for it
	return nil
}

// perform does one operation and reports its outcome.
func (sc *script) perform(ctx context.Context, s *session, i int, do func(context.Context, *session) error,
	say func(string, ...any),
) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	say("begin %d", i)
	err := do(limited, s)
	switch {
	case err == nil:
		say("done %d", i)
	case errors.Is(err, db.ErrOutcomeUnknown):
		say("unknown %d %v", i, err)
	default:
		say("no %d %v", i, err)
	}
	if err == nil {
		return nil
	}
	sc.see(ctx, s, i, say)
	if o := sc.ops[i]; o.left != nil {
		for _, name := range o.left(s) {
			say("left behind by %s: %s", o.name, name)
		}
	}
	return err
}

func (sc *script) seeAll(ctx context.Context, s *session, say func(string, ...any)) {
	for i := range sc.ops {
		sc.see(ctx, s, i, say)
	}
}

// see reports what the handle shows of an operation. It reports nothing wrong of a handle that
// refuses.
func (sc *script) see(ctx context.Context, s *session, i int, say func(string, ...any)) {
	if s.db == nil || sc.ops[i].look == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t, err := sc.ops[i].look(ctx, s)
	// also for a commit of the file's maintenance that could not be settled
	if errors.Is(err, db.ErrOutcomeUnknown) {
		return
	}
	if err != nil {
		say("blind %d %v", i, err)
		return
	}
	say("saw %d %s", i, t)
}
