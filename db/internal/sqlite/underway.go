package sqlite

import (
	"context"
	"sync"
	"time"
)

// interruptAgain is how often a read that is to end is interrupted: a statement that is about to begin does not notice.
const interruptAgain = time.Millisecond

// underway are the reads under way through a handle.
type underway struct {
	mu      sync.Mutex
	newest  *rx
	closing bool // they are interrupted, and so is who comes
}

// begin has the statements of a read interrupted when ctx ends, until end is called. It costs no goroutine while ctx has
// not ended.
func (u *underway) begin(ctx context.Context, why string, x *rx) {
	x.ctx, x.why = ctx, why
	u.mu.Lock()
	x.underway, x.older = true, u.newest
	if u.newest != nil {
		u.newest.newer = x
	}
	u.newest = x
	if u.closing {
		x.ended.Store(true)
	}
	u.mu.Unlock()
	if ctx.Done() != nil {
		x.leave = context.AfterFunc(ctx, func() {
			x.ended.Store(true)
			for u.interruptOne(x) {
				time.Sleep(interruptAgain)
			}
		})
	}
}

// end takes a read out. After it the connection is interrupted no more, and may be another read's.
func (u *underway) end(x *rx) {
	u.mu.Lock()
	x.underway = false
	if x.newer != nil {
		x.newer.older = x.older
	} else {
		u.newest = x.older
	}
	if x.older != nil {
		x.older.newer = x.newer
	}
	x.newer, x.older = nil, nil
	u.mu.Unlock()
	if x.leave != nil {
		x.leave()
	}
}

func (u *underway) interruptOne(x *rx) (more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if x.underway {
		x.session.interrupt()
	}
	return x.underway
}

// interrupt ends the reads under way, and those who come, and says what they are for. It does not wait for their functions.
func (u *underway) interrupt() (whys []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for x := u.newest; x != nil; x = x.older {
		whys = append(whys, x.why)
		x.ended.Store(true)
	}
	if !u.closing {
		u.closing = true
		go func() {
			for u.interruptAll() {
				time.Sleep(interruptAgain)
			}
		}()
	}
	return whys
}

func (u *underway) interruptAll() (more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for x := u.newest; x != nil; x = x.older {
		x.session.interrupt()
	}
	return u.newest != nil
}
