package db

import (
	"context"

	"selvedge/internal/engine"
)

// Progress is how far a long call has come. A call has one or more steps.
type Progress struct {
	Step  string // for people: "copy", "check", "write anew" …
	Done  int64  // of the step, about, in bytes; for Move in rows
	Total int64  // Done at the end of the step, about; 0 if not known
}

// WithProgress returns a context with which the calls that read the whole file report their
// progress: Backup, Check, Examine, Scrub, GiveBack, Compact, Restore, Salvage, Migrate and Move,
// and those of package maintenance. tell is called at the beginning of a step and then at least
// about ten times a second, by one goroutine at a time, and never after the call has returned. It
// must not use the database: a call of a handle is ErrInvalid at once. If it panics or calls
// runtime.Goexit, the call continues without reporting, and returns that as its error, a *Panic for
// a panic; the call's changes stay.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	ctx, l := withListener(ctx, toldOfProgress)
	return engine.WithProgress(ctx, func(p engine.Progress) { l.call(func() { tell(Progress(p)) }) })
}

// WithWaits returns a context with which writing calls on a server, and Migrate there, report the
// sessions whose locks they wait for: after two seconds, and again when the holders change. tell is
// called by one goroutine of each call, and never after the call has returned. Otherwise it behaves
// as with WithProgress. A file reports its waits in Error.HeldBy and in Health.
func WithWaits(ctx context.Context, tell func([]ServerSession)) context.Context {
	ctx, l := withListener(ctx, toldOfWaits)
	return engine.WithWaits(ctx, func(holders []engine.Session) {
		l.call(
			func() { tell(serverSessions(holders)) })
	})
}
