// Package original does what the original stores did on disk: the same system calls in the same order, one for one. They
// go through package unix, since os.File would add calls of its own (epoll_ctl at each open).
//
// What it computes it computes in Go, with encoding/json where it reads; writing takes lines that are encoded already, so
// that the caller can encode them as fast as ours are.
package original
