// Package workers keeps runtimes: workers, what was said to them, a log of what happened, and diagnostics.
//
//	r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "build"})
//	w, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent("fix the build")})
//	ack, err := r.SendInput(ctx, w.WorkerRef, workers.UserInput("begin with the linter"))
//	for item, err := range r.Follow(ctx, cursor) { … }
//
// A runtime lives in a file, where any number of processes share it, or in memory ([NewMemory]);
// the code is the same.
//
// [Runtimes] are those of a scope.
//
// It promises that each call is one transaction, so that a worker, its transcript and the log never
// disagree, whatever is killed when; that ids of workers, events and diagnostics, and sequences of
// transcripts, come from stored counters, grow by one and are never given twice; that the first end
// of a worker stays; that the cost of an input depends on nothing that is there already; and that a
// cursor neither skips nor repeats, across restarts, and says so when what it points at was
// removed.
//
// What a call refuses is a [*RuntimeError]; it wraps the sentinel of package db.
//
// # Caveats
//
// A runtime records; it runs nothing. Nobody notices when the program behind a worker dies.
//
// The log, the transcripts and the diagnostics grow until somebody prunes: [Runtime.PruneEvents]
// removes events, [Runtime.Delete] a worker with its transcript, [Runtimes.Delete] a runtime with
// all that it has. A transcript holds 16,777,215 entries, a log a million million events.
//
// [Runtime.ReadEvents] goes by event ids. In an imported log whose ids repeat or go back it may
// repeat and skip; [Runtime.Follow] and [Runtime.EventsPage] do neither.
package workers
