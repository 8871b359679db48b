package db

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Panic is what Read and Write panic with when the function they were given panicked: the function ran on another
// goroutine, so its stack is kept here.
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

// lanes knows the goroutines that run callbacks, so that a call from inside a callback is an error and not a deadlock,
// whatever context it is given.
type lanes struct {
	running atomic.Int64 // callbacks under way; at 0 the look costs a lone caller nothing
	mu      sync.Mutex
	ids     map[uint64]struct{}
}

func (l *lanes) inCallback() bool {
	if l.running.Load() == 0 {
		return false
	}
	id := goroutineID()
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.ids[id]
	return ok
}

// enter registers the calling goroutine as one that runs callbacks; the function that it returns takes it out again.
func (l *lanes) enter() (leave func()) {
	id := goroutineID()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[uint64]struct{}{}
	}
	l.ids[id] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ids, id)
	}
}

// invoke runs a callback and reports how it ended, also when it takes the goroutine with it.
func (l *lanes) invoke(fn func() error, report func(outcome)) {
	out := outcome{goexit: true}
	l.running.Add(1)
	defer func() {
		if v := recover(); v != nil {
			out = outcome{panic: &Panic{Value: v, Stack: debug.Stack()}}
		}
		l.running.Add(-1)
		report(out)
	}()
	out = outcome{err: fn()}
}
