// Package documents imports, compares and exports trees in which each file is a whole document
// and becomes one row of the store: agents and paused runs. A [Kind] holds what is special to one
// of them, and a [Store] accesses its rows; [Layout] is the rest of a tree's layout.
//
// The old program may continue during a move, and it keeps a run in one of two files, by its state.
// So an import reads all files of a thing together (thing.go). It follows what the old program did
// as long as nobody wrote to the thing here. If both programs changed it, there is a conflict for a
// person to decide (follow.go). A document that the old program can't read goes into quarantine.
package documents
