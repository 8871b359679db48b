package db

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// Panic is what Read and Write panic with when the function they were given panicked: the function may have run on
// another goroutine, so its stack is kept here.
type Panic struct {
	Value any    // what the function panicked with
	Stack []byte // where
}

// Error gives the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap gives the value where it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// An outcome is how a callback ended and, after its commit, how the whole call ended.
type outcome struct {
	err    error
	panic  *Panic
	goexit bool
}

func (o outcome) failed() bool { return o.err != nil || o.panic != nil || o.goexit }

// leave ends the calling goroutine the way the callback ended: a panic reaches the caller's defers, and t.Fatal ends the
// caller's test.
func (o outcome) leave() error {
	switch {
	case o.panic != nil:
		panic(o.panic)
	case o.goexit:
		runtime.Goexit()
	}
	return o.err
}

// callbacks runs the functions that callers give to Read and Write, and knows whether a goroutine is inside one. A call
// from there would wait for itself, and no context tells it, since a caller may pass another. The stack does: a callback
// runs from its file's lane.
type callbacks struct {
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

// takeLane takes the lane that the fewest open files have, before the first caller comes.
func (c *callbacks) takeLane() {
	laneUsers.Lock()
	defer laneUsers.Unlock()
	for i, files := range laneUsers.files {
		if files < laneUsers.files[c.lane] {
			c.lane = i
		}
	}
	laneUsers.files[c.lane]++
}

func (c *callbacks) giveLane() {
	laneUsers.Lock()
	defer laneUsers.Unlock()
	laneUsers.files[c.lane]--
}

// invoke runs a callback and reports how it ended, also when it takes the goroutine with it.
func (c *callbacks) invoke(fn func() error, report func(outcome)) {
	out := outcome{goexit: true}
	c.running.Add(1)
	defer func() {
		if v := recover(); v != nil {
			out = outcome{panic: &Panic{Value: v, Stack: debug.Stack()}}
		}
		c.running.Add(-1)
		report(out)
	}()
	out = outcome{err: lanes[c.lane](fn)}
}

// run runs what follows a commit, from the file's lane too.
func (c *callbacks) run(fn func()) {
	c.running.Add(1)
	defer c.running.Add(-1)
	_ = lanes[c.lane](func() error {
		fn()
		return nil
	})
}

// inside reports whether the calling goroutine is in a callback. Where others' are running, it costs half a microsecond.
func (c *callbacks) inside() bool {
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
