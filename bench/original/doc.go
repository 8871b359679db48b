// Package original does what the original stores did on disk: the same system calls in the same
// order, one for one. They go through package unix, since os.File would add calls of its own
// (epoll_ctl at each open).
//
// What it computes it computes in Go: traces are read with encoding/json, and lines to write come
// encoded already, so that the caller can encode them as fast as ours are.
//
// Package test/replay has models of the same stores, and no code in common with this one: a model
// computes answers in memory, with the originals' exact decimals and errors, and with switches for the
// rules in which we differ on purpose. This package makes the system calls, and its answers need only
// be as much work as the original's.
package original
