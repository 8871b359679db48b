package stores

import (
	"context"
	"sync"

	"selvedge/db"
)

// A tail is where followers of single things wait.
type tail struct {
	poller

	mu      sync.Mutex
	begun   int // polls begun
	waiting map[*waiter]struct{}
}

// A waiter is a follower that has read all there was.
type waiter struct {
	came  func(*db.Rx) (bool, error) // reports whether its stream has news, by one statement
	woken chan struct{}              // closed when its stream may have news
}

type tailKey struct{}

// polls is the number of polls begun. A follower that notes it before a read can tell whether a
// poll may have missed what the read did not see.
func (t *tail) polls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

// wait returns nil once something may have come since the caller read, when since polls had begun.
func (t *tail) wait(ctx context.Context, since int, came func(*db.Rx) (bool, error)) error {
	w := &waiter{came: came, woken: make(chan struct{})}
	t.mu.Lock()
	t.waiting[w] = struct{}{}
	missed := t.begun != since
	t.mu.Unlock()
	if missed {
		t.ask()
	}
	err := t.await(ctx, w.woken)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, w)
	return err
}

// poll wakes the followers whose streams have news. On an error it wakes all of them, to meet the
// error themselves.
func (t *tail) poll(ctx context.Context) {
	t.mu.Lock()
	t.begun++
	waiting := make([]*waiter, 0, len(t.waiting))
	for w := range t.waiting {
		waiting = append(waiting, w)
	}
	t.mu.Unlock()
	if t.polled = len(waiting); t.polled == 0 {
		return
	}
	var woken []*waiter
	err := t.read(ctx, t.d.ReadSingle, func(rx *db.Rx) error { // each asks only for its own end
		woken = woken[:0]
		for _, w := range waiting {
			if came, err := w.came(rx); came || err != nil {
				woken = append(woken, w)
			}
		}
		return nil
	})
	if err != nil {
		woken = waiting
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range woken {
		if _, still := t.waiting[w]; still {
			delete(t.waiting, w)
			close(w.woken)
		}
	}
}
