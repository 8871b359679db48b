// Package workers stores runtimes: workers, their transcripts, a log of events, and diagnostics.
//
//	r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "build"})
//	w, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent("fix the build")})
//	ack, err := r.SendInput(ctx, w.WorkerRef, workers.UserInput("begin with the linter"))
//	for item, err := range r.Follow(ctx, cursor) { … }
//
// A runtime is in a file, where any number of processes share it, or in memory ([NewMemory]). The
// calls are the same. [Runtimes] are the runtimes of a scope.
//
// Each call is one transaction: a worker, its transcript and the log never disagree, even after a
// kill. The ids of workers, events and diagnostics, and the sequences of transcripts, come from
// stored counters; they grow by one and are never reused. The first end of a worker is final. The
// cost of an input does not depend on what is stored. A cursor neither skips nor repeats, across
// restarts, and reports when its events were removed.
//
// A refused call returns a [*RuntimeError], which wraps a sentinel of package db.
//
// # Caveats
//
// A runtime records; it runs nothing. It does not notice when the program behind a worker dies.
//
// The log, the transcripts and the diagnostics grow until they are removed: [Runtime.PruneEvents]
// removes events, [Runtime.Delete] a worker with its transcript, [Runtimes.Delete] a runtime with
// everything in it. A transcript holds 16,777,215 entries, a log a million million events.
//
// [Runtime.ReadEvents] goes by event ids. In an imported log whose ids repeat or go back it may
// repeat and skip; [Runtime.Follow] and [Runtime.EventsPage] do neither.
package workers
