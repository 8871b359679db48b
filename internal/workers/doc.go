// Package workers holds what lies under package workers: the rows of runtimes and workers and their
// SQL, the JSON of what they are about, and the files that hold it, byte for byte, of later
// versions too. Its types say what stands in a row or a file; what a runtime may do is said in the
// public package.
package workers
