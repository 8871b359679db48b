// Package runs stores run traces: what an agent was asked, each turn that it took, and how it
// ended.
//
//	traces := runs.NewStore(d, runs.Options{})
//	err := traces.WriteStarted(ctx, started)                  // the run is open
//	err = traces.AppendTurns(ctx, "agent-a", "run-1", turns)  // repeatedly, from any process
//	err = traces.WriteEnded(ctx, ended)                       // the run has ended
//	page, err := traces.Page(ctx, runs.Filter{}, db.At{})     // newest first, reads no trace
//
// A run is named by its agent and its id. The first record that is appended to it, of any kind,
// creates it. Lists show it from its first [Started] on.
//
// The package promises that
//
//   - an append is committed whole or not at all;
//   - the records of a run, including those of later versions, come back as they were written, in
//     the order of the appends;
//   - [Store.Follow] omits none of them and delivers none twice, whichever process appends;
//   - the cost of a list depends on what it shows, not on what the traces hold;
//   - [Store.Recover] releases each run whose lease is over once, and never one whose lease is
//     live.
//
// The calls follow docs/grammar.md. The calls of the program whose store this package replaces are
// in seed.go.
//
// # Caveats
//
// Times, indexes and ids inside records are the caller's and are not compared with anything: the
// order is that of the appends. Appends to an ended run are accepted and do not reopen it.
//
// An append whose outcome is unknown (db.ErrOutcomeUnknown) may or may not have been committed.
// Repeat it with [Batch.Repeat], or give it a [Batch.Key] from the start.
//
// A run belongs to the process that wrote to it first. It passes to another process that writes to
// it once the first is dead. [Store.AdoptOrphans] ends this process's own open runs too: call it
// before the first run, or [Store.Recover] at any time.
//
// Retention never removes an open run, and works in short transactions. Runs with a cancelled end
// or a pending cancellation, which only [Unknown] records express, are not adopted. [Store.Prune]
// treats a cancelled run as ended, [Store.GC] treats it as open.
//
// A run without a started record is in no list and is neither removed nor adopted. A run holds
// 16,777,215 lines, the last of which is reserved for its end.
package runs
