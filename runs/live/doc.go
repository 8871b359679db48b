// Package live stores live runs: a snapshot of each, which the events of its agent update, and the
// events themselves, in order.
//
// Every call is durable when it returns. An event takes the next sequence of its run from a counter
// in the run's row. Sequences are dense, however many callers and processes write to one run, and
// continue after a restart, a restored file or a cap. Events come back byte for byte, those of
// later versions too.
//
// # Statuses
//
// An agent_start makes the run executing, a planning_start planning; turn_start, tool_start and
// step_start make it executing unless it is planning; agent_end completes it and error fails it.
// Other events leave the status alone. Cancelled is final. Completed and failed are not: an agent
// may continue after an error.
//
// docs/live-events.md lists the types of events with their members. A function or a struct of this
// package makes an event of each type, such as [ToolStart] and [ToolEnd].
//
// # Holders
//
// A run that [Store.Begin] or [Store.Resume] returns is held by a lease: the handle's writes are
// refused once the lease is lost, and [Store.Recover] releases what dead processes held. Runs that
// are not held accept events from any process.
//
// # Caveats
//
// A run has room for 4,294,967,296 events in its life, a file for 2,147,483,646 runs. Times are in
// milliseconds, and go back when the clock does. Caps belong to a Store, not to the file: all
// programs that write to one scope should set the same. [Store.ReplaceRecords] and [Store.Records]
// hold a whole scope in memory; [Store.List] and [Store.EventPage] do not. Paging scans runs whose
// restored events have sequences that repeat or go back.
package live
