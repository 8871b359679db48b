// Package live holds what lies under package runs/live: the rows of live runs and their SQL, the
// JSON of the records, and the files that hold such records, byte for byte. Its types say what
// stands in a row or a file; what a run may do is said in runs/live.
package live
