// Command runtime is a small agent runtime on one file. It shows how the stores work together, and
// what is left when the process is killed: nothing but work that the next process takes up where it
// stopped.
//
//	go run ./examples/runtime FILE TASK...
//
// Each task is a paused workflow (checkpoints), so that it has one worker at a time however many
// processes run. Whoever claims it leases the task's thread (agents), tells its worker about it
// (workers), shows it as a live run (runs/live) and writes its trace (runs). A step's turn and what
// the live run shows of it are one transaction, and so are the ends of trace and live run, the
// checkpoint's completion and the release of the thread: there is no moment at which only some of
// them have happened. A task that fails is given back at once.
package main
