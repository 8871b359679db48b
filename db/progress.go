package db

import (
	"context"

	"selvedge/db/internal/engine"
)

// Progress is how far a long call is. It has steps, one after another.
type Progress struct {
	Step  string // for people: "copy", "check", "write anew" …
	Done  int64  // about: of the step, in bytes, and of Move in rows
	Total int64  // about: what Done will be at the end of the step; 0 where that is not known
}

// WithProgress gives a context with which the calls that go over the whole file tell how far they
// are: Backup, Check, Examine, Scrub, GiveBack, Compact, Restore, Salvage, Migrate and Move, and
// those of package maintenance. tell is called at the beginning of a step and then about ten times
// a second or more, by one goroutine at a time, and not after the call has returned. It may not use
// the database: a call of a handle is ErrInvalid at once. When it panics or leaves by
// runtime.Goexit, the call goes on to its end, tells it nothing more, and returns that as its
// error, a *Panic for a panic; what the call did stays done.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	ctx, l := withListener(ctx, toldOfProgress)
	return engine.WithProgress(ctx, func(p engine.Progress) { l.tell(func() { tell(Progress(p)) }) })
}

// WithWaits gives a context with which writing calls on a server, and Migrate there, tell for whose
// locks they wait: once they have for two seconds, and again where others have them then. tell is
// called by one goroutine of each call, and not after that has returned. Else it is as with
// WithProgress. A file says so in Error.HeldBy and in Health.
func WithWaits(ctx context.Context, tell func([]ServerSession)) context.Context {
	ctx, l := withListener(ctx, toldOfWaits)
	return engine.WithWaits(ctx, func(holders []engine.Session) {
		l.tell(
			func() { tell(serverSessions(holders)) })
	})
}

// TellsProgress reports whether WithProgress named somebody.
func TellsProgress(ctx context.Context) bool { return engine.Telling(ctx) != nil }

// TellProgress tells whom WithProgress named, if it named anybody.
func TellProgress(ctx context.Context, p Progress) {
	if tell := engine.Telling(ctx); tell != nil {
		tell(engine.Progress(p))
	}
}
