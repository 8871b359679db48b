// Command runtime is a small agent runtime on one file. It shows what is left when the process is
// killed: nothing but work that the next process takes up where it stopped.
//
//	go run ./examples/runtime FILE TASK...
//
// Each task is a run of package selvedge, which has one holder at a time however many processes
// work. The holder tells its worker about it (workers). A step's turn and the words that were said
// before it are one transaction. A task that fails is released.
package main
