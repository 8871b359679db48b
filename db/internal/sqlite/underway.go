package sqlite

import (
	"context"
	"sync"
	"time"
)

// interruptAgain is how often a read that is to end is interrupted: a statement that is about to begin does not notice.
const interruptAgain = time.Millisecond

// underway are the reads under way through a handle, with what they are for.
type underway struct {
	mu      sync.Mutex
	reads   map[*rx]string
	closing bool // they are interrupted, and so is who comes
}

// begin has the statements of a read interrupted when ctx ends, until over is called. It costs no goroutine while ctx has
// not ended.
func (u *underway) begin(ctx context.Context, why string, x *rx) (over func()) {
	x.ctx = ctx
	u.mu.Lock()
	if u.reads == nil {
		u.reads = map[*rx]string{}
	}
	u.reads[x] = why
	x.ended.Store(u.closing)
	u.mu.Unlock()
	if ctx.Done() == nil {
		return func() { u.end(x) }
	}
	ended := make(chan struct{})
	leave := context.AfterFunc(ctx, func() {
		defer close(ended)
		x.ended.Store(true)
		for u.has(x) {
			x.session.interrupt()
			time.Sleep(interruptAgain)
		}
	})
	return func() {
		u.end(x)
		if !leave() {
			<-ended // the connection is another read's from here on
		}
	}
}

func (u *underway) end(x *rx) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.reads, x)
}

func (u *underway) has(x *rx) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, there := u.reads[x]
	return there
}

// interrupt ends the reads under way, and those who come, and says what they are for. It does not wait for their functions.
func (u *underway) interrupt() (whys []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for x, why := range u.reads {
		whys = append(whys, why)
		x.ended.Store(true)
	}
	if !u.closing {
		u.closing = true
		go func() {
			for u.interruptOnce() {
				time.Sleep(interruptAgain)
			}
		}()
	}
	return whys
}

// interruptOnce holds the lock, so that no connection passes to another read meanwhile.
func (u *underway) interruptOnce() (more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for x := range u.reads {
		x.session.interrupt()
	}
	return len(u.reads) > 0
}
