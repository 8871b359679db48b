// Package original does what the original stores did on disk: the same system calls in the same
// order, one for one. They go through package unix, since os.File would add calls of its own
// (epoll_ctl at each open).
//
// What it computes it computes in Go: traces are read with encoding/json, and lines to write come
// encoded already, so that the caller can encode them as fast as ours are.
package original
