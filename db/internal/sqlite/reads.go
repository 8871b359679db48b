package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"selvedge/db/internal/lock"
)

// reads are the reads under way through a handle. While the writer asks for a gap between them, new ones wait.
type reads struct {
	gate  *lock.Gate // among the processes; nil where there is none
	asked atomic.Bool

	mu  sync.Mutex
	all map[*activeRead]struct{}
}

// An activeRead is one read, for people.
type activeRead struct {
	why   string
	began time.Time
}

// begin waits for the gap that somebody asks for, no longer than GapPatience, and registers a read.
func (r *reads) begin(ctx context.Context, why string) *activeRead {
	r.leaveGap(ctx)
	a := &activeRead{why: why, began: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[*activeRead]struct{}{}
	}
	r.all[a] = struct{}{}
	return a
}

// end takes a read out and tells how long it took.
func (r *reads) end(a *activeRead) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, a)
	return time.Since(a.began)
}

func (r *reads) wanted() bool { return r.asked.Load() || r.gate != nil && r.gate.IsShut() }

// gapLook is how often a read that waits looks whether it may begin.
const gapLook = time.Millisecond

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

// longest is how long the oldest read has been going on; 0 when there is none.
func (r *reads) longest(now time.Time) time.Duration {
	a := r.oldest()
	if a == nil {
		return 0
	}
	return now.Sub(a.began)
}

func (r *reads) oldest() *activeRead {
	r.mu.Lock()
	defer r.mu.Unlock()
	var oldest *activeRead
	for a := range r.all {
		if oldest == nil || a.began.Before(oldest.began) {
			oldest = a
		}
	}
	return oldest
}

func (r *reads) close() error {
	if r.gate == nil {
		return nil
	}
	return r.gate.Close()
}
