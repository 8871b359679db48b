// Package runs keeps run traces: what an agent was asked, each turn that it took, and how it ended.
//
//	traces := runs.NewStore(d, runs.Options{})
//	err := traces.WriteStarted(ctx, started)                    // the run is open
//	err = traces.AppendTurns(ctx, "agent-a", "run-1", turns)    // any number of times, from anywhere
//	err = traces.WriteEnded(ctx, ended)                         // and has ended
//	page, err := traces.Page(ctx, runs.Filter{}, db.At{})       // newest first, without reading a trace
//
// A run is named by its agent and its id. It comes into being with the first record that is
// appended to it, of whatever kind, and is in lists from its first [Started] on.
//
// It promises that an append is kept whole or not at all; that the records of a run come back in
// the order in which they were appended, as they were written, those of later versions too; that
// [Store.Follow] leaves none of them out and gives none twice, whichever process appends; that a
// list costs what it shows and not what the traces hold; and that [Store.Recover] closes the runs
// of programs that are gone, once, and never those of one that lives.
//
// Its calls are those of docs/grammar.md; the ones of the program whose store it took over are in seed.go.
//
// # Caveats
//
// Times, indexes and ids inside records are the caller's and are not compared with anything: order
// is that of the appends. Appends to an ended run are taken and don't open it again.
//
// An append whose outcome is unknown (db.ErrOutcomeUnknown) may be there or not: repeat it with
// [Batch.Repeat], or give it a [Batch.Key] from the beginning.
//
// A run belongs to the process that wrote to it first, and passes to another that writes to it when
// that one is dead. [Store.AdoptOrphans] ends this process's own open runs too: call it before the
// first run, or [Store.Recover] at any time.
//
// Retention never removes an open run, and works in short transactions. A cancelled end and a
// pending cancellation, which only [Unknown] records give, are not adopted. [Store.Prune] takes a
// cancelled run for an ended one, [Store.GC] for an open one.
//
// A run without a started record is in no list and is neither removed nor adopted. A run holds
// 16,777,215 lines, the last of them its end.
package runs
