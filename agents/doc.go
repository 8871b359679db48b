// Package agents keeps the registry of agents and the reservations of threads.
//
// A Registry keeps the entries of one scope. It speaks the grammar of all stores (docs/grammar.md).
// Save, Load, List and the rest are the calls of the old registry, in seed.go. Delete is among
// them: a missing agent is no error. Two things go beyond that registry. TryReserveThread writes
// one row per thread, so that among any number of processes one wins and the others receive its
// agent's entry. A Lease is a reservation that ends: by its time, by release, or with its process.
// What its holder writes carries its epoch, and is refused once another agent may have the thread.
//
// Entries are stored without loss: times with second 60 or in the year 12026, counters up to
// 2^64-1, and keys that only later versions know.
//
// # Caveats
//
// Without a lease, only the pid shows that an agent is alive. An agent without a pid holds its
// thread until its status changes, and so does one with a pid that another process has got since.
// Only the agent's own machine can judge its pid.
//
// Save, UpdateEntry, UpdateStatus and Delete respect no lease: an operator can end any agent, and
// its lease is lost then. Several agents can be active on one thread, by Save or
// CreateGeneratedEntry. All of them hold it against TryReserveThread, and at most one has reserved
// it.
//
// Entries that ended seven days ago leave the registry when a call reads them. Their rows stay,
// with put_aside_at set, until Prune. An id that was put aside is free again.
//
// The end of a lease interrupts no process. A holder that was stopped until its lease was over gets
// the error at its next call. Until then nothing protects what it does outside the file.
package agents
