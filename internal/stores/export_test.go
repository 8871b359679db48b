package stores

import (
	"context"
	"testing"
	"time"

	"selvedge/db"
)

// WithLongPolls has every overview treat a poll of all heads as a long one.
func WithLongPolls(t testing.TB) {
	before := longPoll
	longPoll = 0
	t.Cleanup(func() { longPoll = before })
}

// WorkOfAPoll is how long a poll that runs fn counts as work.
func WorkOfAPoll(ctx context.Context, d *db.DB, fn func(*db.Rx) error) (time.Duration, error) {
	var l poller
	err := l.read(ctx, d.Read, fn)
	return l.worked, err
}

// AskedAfter reports whether a follower that read when since polls had begun, and waits when begun
// had, asks for another poll.
func AskedAfter(since, begun int) bool {
	t := &tail{
		poller: poller{asked: make(chan struct{}, 1), ended: make(chan struct{})},
		begun:  begun, waiting: map[*waiter]struct{}{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it arrives, and leaves
	_ = t.wait(ctx, since, nil)
	return len(t.asked) > 0
}
