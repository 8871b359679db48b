// Package callback runs the functions that callers give to Read and Write, and knows whether a goroutine is inside one.
package callback

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// An Outcome is how a callback ended and, after its commit, how the whole call ended.
type Outcome struct {
	Err      error
	Panicked bool
	Value    any    // what it panicked with
	Stack    []byte // where
	Goexit   bool   // it left by runtime.Goexit, as t.Fatal does

	Committed bool // the transaction was committed, and it is a function that followed the commit which did not return
}

// Failed reports whether the work of the callback is to be undone.
func (o *Outcome) Failed() bool { return o.Err != nil || o.Panicked || o.Goexit }

// Gone reports whether the callback did not return, so that it must not be run again.
func (o *Outcome) Gone() bool { return o.Panicked || o.Goexit }

// Callbacks are those of one open file. A call
// from inside one of them would wait for itself, and no context tells it, since a caller may pass another. The stack does: a callback
// runs from its file's lane.
type Callbacks struct {
	lane    int
	running atomic.Int64 // at 0 a call need not look at its stack
}

// A lane is a function that does nothing but call another: its address on a goroutine's stack says what runs there. Each open
// file has one of its own, so that a callback may use another file. Past as many files as there are lanes some share
// one, and between those such a call may be refused. Each instance is a function of its own because the sizes differ.
//
//go:noinline
func lane[size any](fn func() error) error { return fn() }

var lanes = [...]func(fn func() error) error{
	lane[[0]byte], lane[[1]byte], lane[[2]byte], lane[[3]byte], lane[[4]byte], lane[[5]byte], lane[[6]byte], lane[[7]byte],
	lane[[8]byte], lane[[9]byte], lane[[10]byte], lane[[11]byte], lane[[12]byte], lane[[13]byte], lane[[14]byte], lane[[15]byte],
}

// laneAddresses are where the lanes' functions return to.
var laneAddresses = func() (addresses [len(lanes)]uintptr) {
	for i, run := range lanes {
		_ = run(func() error {
			runtime.Callers(2, addresses[i:i+1]) // 0 is Callers, 1 this function, 2 the lane
			return nil
		})
	}
	return addresses
}()

var laneUsers struct {
	sync.Mutex
	files [len(lanes)]int
}

// TakeLane takes the lane that the fewest open files have, before the first caller comes.
func (c *Callbacks) TakeLane() {
	laneUsers.Lock()
	defer laneUsers.Unlock()
	for i, files := range laneUsers.files {
		if files < laneUsers.files[c.lane] {
			c.lane = i
		}
	}
	laneUsers.files[c.lane]++
}

// GiveLane gives it back when the file is closed.
func (c *Callbacks) GiveLane() {
	laneUsers.Lock()
	defer laneUsers.Unlock()
	laneUsers.files[c.lane]--
}

// Invoke runs a callback and reports how it ended, also when it takes the goroutine with it.
func (c *Callbacks) Invoke(fn func() error, report func(Outcome)) {
	out := Outcome{Goexit: true}
	c.running.Add(1)
	defer func() {
		if v := recover(); v != nil {
			out = Outcome{Panicked: true, Value: v, Stack: debug.Stack()}
		}
		c.running.Add(-1)
		report(out)
	}()
	out = Outcome{Err: lanes[c.lane](fn)}
}

// Inside reports whether the calling goroutine is in a callback. Where others' are running, it costs half a microsecond.
func (c *Callbacks) Inside() bool {
	if c.running.Load() == 0 {
		return false
	}
	var callers [64]uintptr
	for skip := 2; ; skip += len(callers) {
		n := runtime.Callers(skip, callers[:])
		if slices.Contains(callers[:n], laneAddresses[c.lane]) {
			return true
		}
		if n < len(callers) {
			return false
		}
	}
}
