package db

import (
	"fmt"
	"runtime"
	"time"

	"selvedge/db/internal/callback"
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

// A call is one Read or Write, as Options.Observe is told of it.
type call struct {
	observe       func(Observation) // nil when nobody observes
	seen          Observation
	queued, began time.Time
}

func (d *DB) observed(why string) call {
	c := call{observe: d.options.Observe, seen: Observation{Why: why, Write: true}}
	if c.observe != nil {
		c.queued = time.Now()
	}
	return c
}

func (c *call) begin() {
	if c.observe != nil {
		c.began = time.Now()
	}
}

// end tells the observer, and ends the calling goroutine the way the callback ended: a panic reaches the caller's defers,
// and t.Fatal ends the caller's test.
func (c *call) end(out callback.Outcome) error {
	err := wrap(c.seen.Why, out.Err)
	if c.observe != nil {
		c.seen.Err = err
		if !c.began.IsZero() {
			c.seen.Wait, c.seen.Run = c.began.Sub(c.queued), time.Since(c.began)
		}
		c.observe(c.seen)
	}
	switch {
	case out.Panicked:
		panic(&Panic{Value: out.Value, Stack: out.Stack})
	case out.Goexit:
		runtime.Goexit()
	}
	return err
}
