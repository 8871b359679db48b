// Package machine asks the machine what no file says: the clock that leases run on and the start it
// counts from, what kind of file system a path is on, and whether a file was written to.
package machine
