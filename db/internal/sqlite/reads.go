package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"selvedge/db/internal/lock"
)

// interruptAgain is how often a read that is to end is interrupted: a statement that is about to begin does not notice.
const interruptAgain = time.Millisecond

// reads are the reads under way through a handle. While the writer asks for a gap between them, new ones wait.
type reads struct {
	gate  *lock.Gate // among the processes; nil where there is none
	asked atomic.Bool

	mu      sync.Mutex
	newest  *rx
	oldest  *rx
	closing bool // they are interrupted, and so is who comes
}

// An activeRead is what the list of reads keeps of one.
type activeRead struct {
	why          string
	began        time.Time
	leave        func() bool // keeps it from following its context any more
	listed       bool
	newer, older *rx
}

// begin registers a read, and has its statements interrupted when ctx ends, until end is called. It costs no goroutine while
// ctx has not ended.
func (r *reads) begin(ctx context.Context, why string, x *rx) {
	x.ctx, x.why, x.began = ctx, why, time.Now()
	r.mu.Lock()
	x.listed, x.older = true, r.newest
	if r.newest != nil {
		r.newest.newer = x
	} else {
		r.oldest = x
	}
	r.newest = x
	if r.closing {
		x.ended.Store(true)
	}
	r.mu.Unlock()
	if ctx.Done() != nil {
		x.leave = context.AfterFunc(ctx, func() {
			x.ended.Store(true)
			for r.interruptOne(x) {
				time.Sleep(interruptAgain)
			}
		})
	}
}

// end takes a read out. After it the connection is interrupted no more, and may be another read's.
func (r *reads) end(x *rx) {
	r.mu.Lock()
	x.listed = false
	if x.newer != nil {
		x.newer.older = x.older
	} else {
		r.newest = x.older
	}
	if x.older != nil {
		x.older.newer = x.newer
	} else {
		r.oldest = x.newer
	}
	x.newer, x.older = nil, nil
	r.mu.Unlock()
	if x.leave != nil {
		x.leave()
	}
}

func (r *reads) interruptOne(x *rx) (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.listed {
		x.session.interrupt()
	}
	return x.listed
}

// interrupt ends the reads under way, and those who come, and says what they are for. It does not wait for their functions.
func (r *reads) interrupt() (whys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for x := r.oldest; x != nil; x = x.newer {
		whys = append(whys, x.why)
		x.ended.Store(true)
	}
	if !r.closing {
		r.closing = true
		go func() {
			for r.interruptAll() {
				time.Sleep(interruptAgain)
			}
		}()
	}
	return whys
}

func (r *reads) interruptAll() (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for x := r.oldest; x != nil; x = x.newer {
		x.session.interrupt()
	}
	return r.oldest != nil
}

// longest is what the oldest read is for and how long it has been going on; 0 when there is none.
func (r *reads) longest() (why string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.oldest == nil {
		return "", 0
	}
	return r.oldest.why, time.Since(r.oldest.began)
}

func (r *reads) wanted() bool { return r.asked.Load() || r.gate != nil && r.gate.IsShut() }

// gapLook is how often a read that waits looks whether it may begin.
const gapLook = time.Millisecond

// leaveGap waits for the gap that somebody asks for, no longer than GapPatience.
func (r *reads) leaveGap(ctx context.Context) {
	if !r.wanted() {
		return
	}
	look := time.NewTicker(gapLook)
	defer look.Stop()
	end := time.NewTimer(GapPatience)
	defer end.Stop()
	for r.wanted() {
		select {
		case <-look.C:
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (r *reads) shut() {
	r.asked.Store(true)
	if r.gate != nil {
		r.gate.Shut()
	}
}

func (r *reads) open() {
	r.asked.Store(false)
	if r.gate != nil {
		r.gate.Open()
	}
}

func (r *reads) close() error {
	if r.gate == nil {
		return nil
	}
	return r.gate.Close()
}
