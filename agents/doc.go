// Package agents keeps the registry of agents: who works on what, and who has which thread.
//
// A Registry keeps the entries of one scope. It speaks the grammar of all stores (docs/grammar.md);
// Save, Load, List and the rest are the calls of the registry that it took over, in seed.go. Delete
// is among them: a missing agent is fine. Two things go beyond it. TryReserveThread is decided by a
// row of the thread's own, so that among any number of processes one wins and the others are told
// who. And a Lease is a reservation that ends: by its time, by release, or with the process that it
// is tied to; what its holder writes under it carries its epoch and is refused once somebody else
// may have the thread.
//
// Entries keep what was written: times with second 60 or in the year 12026, counters up to 2^64-1,
// keys that only later versions know.
//
// # Caveats
//
// Without a lease nothing but its pid speaks for an agent: one without a pid holds its thread until
// its status changes, and so does one whose pid belongs to an unrelated process by now. Whether an
// agent lives can only be asked on its own machine.
//
// Save, UpdateEntry, UpdateStatus and Delete ask nobody: an operator can end any agent, leased or
// not, and its lease is lost then. Several agents can be active on one thread, by Save or
// CreateGeneratedEntry; all of them hold it against TryReserveThread, and one at most has reserved
// it.
//
// Entries that ended seven days ago leave the registry when a call meets them. Their rows stay,
// with put_aside_at set, until Prune; an id that was put aside is free again.
//
// A lease's clock stops nobody. A holder that was stopped beyond its lease finds out at its next
// call; what it does outside the file meanwhile, it does without the thread.
package agents
