// Package callback runs the functions that callers pass to Read and Write, and knows whether a
// goroutine is inside one.
package callback

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An Outcome is how a callback ended and, after its commit, how the whole call ended.
type Outcome struct {
	Err      error
	Panicked bool
	Value    any    // the value that it panicked with
	Stack    []byte // where
	Goexit   bool   // it left by runtime.Goexit, as t.Fatal does

	Group  int           // callers that shared the commit; 0 without one
	Commit time.Duration // that it took

	// the transaction was committed, and it is a function that followed the commit which did not return
	Committed bool
}

// Failed reports whether the work of the callback is to be undone.
func (o *Outcome) Failed() bool { return o.Err != nil || o.Panicked || o.Goexit }

// Gone reports whether the callback did not return, so that it must not be run again.
func (o *Outcome) Gone() bool { return o.Panicked || o.Goexit }

// GoneError is the error of a function that did not return: it must not be run again.
type GoneError struct{ Err error }

// Error says which function it was.
func (g *GoneError) Error() string { return g.Err.Error() }

// Unwrap returns the error.
func (g *GoneError) Unwrap() error { return g.Err }

// Callbacks are the callbacks of one open file. A call from inside one of them would wait for
// itself. The context can't show that, since a caller may pass another one, but the stack does: a
// callback runs from its file's markers.
type Callbacks struct {
	markers []marker     // the outermost first, the last a final one
	running atomic.Int64 // at 0 a call need not examine its stack
}

// A marker is a function that does nothing but call another: its address on a goroutine's stack
// shows which file's callback runs there. Each open file has a number, and a callback runs from
// the markers of its digits, base 16: from one of the final markers for the last digit, and from
// the others for those before it. So any number of files can be distinguished, and with up to 16
// of them a callback runs from a single marker. Each marker is a function of its own because the
// sizes differ.
type marker struct {
	run     func(fn func() error) error
	returns uintptr // the address that the called function returns to
}

//go:noinline
func through[size any](fn func() error) error { return fn() }

const base = 16

var final, leading = measured(
	through[[0]byte], through[[1]byte], through[[2]byte], through[[3]byte], through[[4]byte], through[[5]byte],
	through[[6]byte], through[[7]byte], through[[8]byte], through[[9]byte], through[[10]byte], through[[11]byte],
	through[[12]byte], through[[13]byte], through[[14]byte], through[[15]byte],
), measured(
	through[[16]byte], through[[17]byte], through[[18]byte], through[[19]byte], through[[20]byte],
	through[[21]byte],
	through[[22]byte], through[[23]byte], through[[24]byte], through[[25]byte], through[[26]byte],
	through[[27]byte],
	through[[28]byte], through[[29]byte], through[[30]byte], through[[31]byte],
)

func measured(functions ...func(fn func() error) error) []marker {
	markers := make([]marker, len(functions))
	for i, run := range functions {
		markers[i].run = run
		_ = run(func() error {
			var address [1]uintptr
			runtime.Callers(2, address[:]) // 0 is Callers, 1 this function, 2 the marker
			markers[i].returns = address[0]
			return nil
		})
	}
	return markers
}

// markersOf returns the markers of a number.
func markersOf(number int) []marker {
	markers := []marker{final[number%base]}
	for number /= base; number > 0; number /= base {
		markers = slices.Insert(markers, 0, leading[number%base])
	}
	return markers
}

var numbers struct {
	sync.Mutex
	taken map[int]bool
}

// TakeNumber takes the lowest number that no open file has, before the first caller comes. The
// function that it returns frees the number when the file is closed.
func (c *Callbacks) TakeNumber() (give func()) {
	numbers.Lock()
	defer numbers.Unlock()
	if numbers.taken == nil {
		numbers.taken = map[int]bool{}
	}
	number := 0
	for numbers.taken[number] {
		number++
	}
	numbers.taken[number] = true
	c.markers = markersOf(number)
	return sync.OnceFunc(func() {
		numbers.Lock()
		defer numbers.Unlock()
		delete(numbers.taken, number)
	})
}

// Outside are the callbacks that belong to no handle: the functions for progress and for waits.
var Outside = func() *Callbacks {
	c := &Callbacks{}
	c.TakeNumber()
	return c
}()

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
	out = Outcome{Err: run(c.markers, fn)}
}

func run(markers []marker, fn func() error) error {
	if len(markers) == 1 {
		return markers[0].run(fn)
	}
	return markers[0].run(func() error { return run(markers[1:], fn) })
}

// Inside reports whether the calling goroutine is in a callback. If others' callbacks are
// running, it costs half a microsecond.
func (c *Callbacks) Inside() bool {
	if c.running.Load() == 0 {
		return false
	}
	last := c.markers[len(c.markers)-1].returns
	var callers [64]uintptr
	for skip := 2; ; skip += len(callers) {
		n := runtime.Callers(skip, callers[:])
		if slices.Contains(callers[:n], last) && c.onStack() {
			return true
		}
		if n < len(callers) {
			return false
		}
	}
}

// onStack searches the whole stack for the file's markers, and for no others: the last digit of
// another file may be the same.
func (c *Callbacks) onStack() bool {
	var all []uintptr
	for size := 256; ; size *= 2 {
		all = make([]uintptr, size)
		if n := runtime.Callers(3, all); n < size {
			all = all[:n]
			break
		}
	}
	var chain []uintptr // of markers, the innermost first
	same := func() bool {
		if len(chain) != len(c.markers) {
			return false
		}
		for i, returns := range chain {
			if returns != c.markers[len(c.markers)-1-i].returns {
				return false
			}
		}
		return true
	}
	for _, address := range all {
		isMarker := func(l marker) bool { return l.returns == address }
		switch {
		case slices.ContainsFunc(final, isMarker):
			if same() {
				return true
			}
			chain = append(chain[:0], address)
		case slices.ContainsFunc(leading, isMarker) && len(chain) > 0:
			chain = append(chain, address)
		}
	}
	return same()
}
