package sqlite

import (
	"context"
	"maps"
	"slices"

	"selvedge/db/internal/engine"
)

// Waiting is the number of callers in the writer's queue. The care of the file is none.
func (e *Engine) Waiting() (callers int) {
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	for _, r := range e.writer.pending {
		if !r.care {
			callers++
		}
	}
	return callers
}

// Closing reports whether the writer refuses new calls.
func (e *Engine) Closing() bool {
	e.writer.mu.Lock()
	defer e.writer.mu.Unlock()
	return e.writer.refusing
}

// WriterPragma runs a pragma on the writing connection and gives its answer.
func (e *Engine) WriterPragma(ctx context.Context, text string) (got string, err error) {
	err = e.Write(ctx, "pragma", func(x engine.Tx) error { return x.(*tx).session.Get(&got, "PRAGMA "+text) }).Err
	return got, err
}

// ReaderPragmas reads the settings of a reading connection.
func (e *Engine) ReaderPragmas(ctx context.Context) (map[string]string, error) {
	got := map[string]string{}
	err := e.Read(ctx, "read the settings", func(x engine.Rx) error {
		for _, p := range pragmas(roleReader, e.config.Synchronous) {
			var v string
			if err := x.Get(&v, "PRAGMA "+p.name, nil); err != nil {
				return err
			}
			got[p.name] = v
		}
		return nil
	}).Err
	return got, err
}

// OnVisit gives a channel that is closed when a visit begins.
func (e *Engine) OnVisit() <-chan struct{} {
	begun := make(chan struct{})
	e.visits.mu.Lock()
	defer e.visits.mu.Unlock()
	e.visits.begun = begun
	return begun
}

// Statements are the texts that the connections of a handle in memory, or of one with one reader, keep prepared.
func (e *Engine) Statements(ctx context.Context) (texts []string, err error) {
	keep := func(s *session) error {
		texts = append(texts, slices.Collect(maps.Keys(s.statements))...)
		return nil
	}
	err = e.Write(ctx, "look at the statements", func(x engine.Tx) error { return keep(x.(*tx).session) }).Err
	if err == nil && e.readers != nil {
		err = e.Read(ctx, "look at the statements", func(x engine.Rx) error { return keep(x.(*rx).session) }).Err
	}
	return texts, err
}
