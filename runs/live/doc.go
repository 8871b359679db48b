// Package live keeps live runs: a snapshot of each, moved on by the events that its agent sends,
// and the events themselves, in order.
//
// Every call is durable when it returns. An event takes the next sequence of its run from a counter
// in the run's row, so sequences are dense however many callers and processes write to one run, and
// go on where they were after a restart, a restored file or a cap. Events come back byte for byte,
// those of later versions too.
//
// # Statuses
//
// agent_start executes, planning_start plans, turn_start, tool_start and step_start execute unless
// the run is planning, agent_end completes, error fails; other events leave the status alone.
// Cancelled is final. Completed and failed are not: an agent that goes on after an error is at work
// again.
//
// # Holders
//
// Anybody may append to a run. One that [Store.Begin] or [Store.Resume] gives is held by a lease:
// the handle's writes are refused once the lease is lost, and [Store.Recover] fails what a dead
// process held.
//
// # Caveats
//
// A run has room for 4,294,967,296 events in its life, a file for 2,147,483,646 runs. Times have
// milliseconds, and move back with the clock. Caps belong to a Store, not to the file: all programs
// that write to one scope should set the same. [Store.ReplaceRecords] and [Store.Records] hold a
// whole scope in memory; [Store.List] and [Store.EventPage] do not. Runs whose restored events
// repeat sequences or go back are paged through by a scan.
package live
