// Package machine asks the machine for facts that no file records: the clock that leases run on
// and the start it counts from, the kind of file system of a path, and whether a file was written
// to.
package machine
