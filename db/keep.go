package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"selvedge/internal/callback"
)

// keepLook is how often Keep renews a lease that has no TTL, or a long one.
const keepLook = time.Minute

// keepRead is how often Keep reads whether the lease was ended from outside.
const keepRead = time.Second

// keepRetry is the pause after a renewal with a temporary error.
const keepRetry = 50 * time.Millisecond

// Keep renews the lease in the background, each time a third of its TTL has passed and at least
// once a minute. The returned context ends when ctx does, when stop is called, and when the lease
// is lost; context.Cause is then an ErrLeaseLost. Once a second it reads whether the lease was ended
// from outside. A lease is also lost when it could not be renewed before its end, because of a full
// disk or a writer that blocks all others; the context ends at that moment, without waiting for the
// call in progress. Closing the file ends it with ErrClosed.
//
// stop ends the renewals and returns when they have ended. The lease then runs out by itself;
// Release ends it sooner. Each renewal is a Write that Options.Observe sees as "renew" with the
// noun of the lease: "renew reservation".
func (h *Handle) Keep(ctx context.Context) (kept context.Context, stop context.CancelFunc) {
	kept, cancel := context.WithCancelCause(ctx)
	k := &keeper{Handle: h, ctx: kept, cancel: cancel, ended: make(chan struct{})}
	h.db.keepers.add(k)
	go func() {
		defer close(k.ended)
		defer h.db.keepers.remove(k)
		returned := false
		defer func() { // a clock or an observer did not return
			if v := recover(); v != nil {
				k.end(panicked(v))
			} else if !returned {
				k.end(errGoexit)
			}
		}()
		k.run()
		returned = true
	}()
	return kept, func() {
		cancel(context.Canceled)
		<-k.ended
	}
}

// A keeper renews one lease.
type keeper struct {
	*Handle
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

func (k *keeper) run() {
	pause := keepLook
	if k.ttl > 0 {
		pause = min(pause, k.ttl/3)
	}
	until := k.until
	for next := time.Duration(0); k.sleep(next, until); {
		renewed := k.deadline()
		err := k.renewBefore(until)
		switch {
		case err == nil:
			until, next = renewed, pause
		case k.ctx.Err() != nil:
			return
		case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrClosed), isPanic(err):
			k.cancel(err)
			return
		default: // a full disk, a busy writer: may end before the lease does
			next = min(pause, keepRetry)
		}
	}
}

// errDied: on a server, a process that does not renew in time counts as dead.
var errDied = fmt.Errorf("%w: this process did not reach the server in time, and counts as dead there",
	ErrLeaseLost)

var errKeptTooLate = fmt.Errorf("%w: it could not be renewed before its end", ErrLeaseLost)

// renewBefore stops trying at the lease's end. A Write that has begun may continue; the context returned
// by Keep ends before it.
func (k *keeper) renewBefore(until BootTime) error {
	ctx, cancel := context.WithTimeoutCause(k.ctx, k.left(until), errKeptTooLate)
	defer cancel()
	late := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errKeptTooLate) {
			k.lost()
		}
	})
	defer late()
	return k.Renew(ctx)
}

func (k *keeper) lost() { k.end(errKeptTooLate) }

// end ends the context, with an error that names the lease.
func (k *keeper) end(why error) {
	named := why
	name := func() { named = k.lease.Named("keep "+k.lease.Noun, why) }
	if err := apart(&k.db.store.Callbacks, "Leased.Named", name); err != nil {
		named = errors.Join(why, err)
	}
	k.cancel(named)
}

// now reads the clock, which must not call the handle.
func (k *keeper) now() (now BootTime) {
	k.db.store.Callbacks.Invoke(func() error { now = k.db.options.BootTime(); return nil },
		func(out callback.Outcome) {
			if out.Panicked {
				panic(&Panic{Value: out.Value, Stack: out.Stack})
			}
		})
	return now
}

// deadline is the end of a lease that is renewed now.
func (k *keeper) deadline() BootTime {
	if k.ttl == 0 {
		return BootTime{Since: math.MaxInt64}
	}
	return k.now().Add(k.ttl)
}

// left is the time until an end.
func (k *keeper) left(until BootTime) time.Duration {
	return until.Since - k.now().Since
}

// sleep waits for the next renewal. It returns false if the lease is no longer to be kept, or its
// end has come. Timers stop while the machine sleeps, so the end is checked again.
func (k *keeper) sleep(pause time.Duration, until BootTime) bool {
	for next := time.Now().Add(pause); ; {
		timer := time.NewTimer(min(time.Until(next), k.left(until), keepRead))
		select {
		case <-k.ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if k.left(until) <= 0 {
			k.lost()
			return false
		}
		if rest := time.Until(next); rest <= 0 || k.seemsLost(min(rest, k.left(until))) {
			return true
		}
	}
}

// seemsLost reads whether the lease was ended. The renewal decides: the snapshot of a read may be older
// than a renewal elsewhere.
func (k *keeper) seemsLost(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(k.ctx, within)
	defer cancel()
	return errors.Is(k.read(ctx), ErrLeaseLost)
}

// keepers are the leases that an open file renews.
type keepers struct {
	mu  sync.Mutex
	all map[*keeper]struct{}
}

func (k *keepers) add(one *keeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[*keeper]struct{}{}
	}
	k.all[one] = struct{}{}
}

func (k *keepers) remove(one *keeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, one)
}

// died ends the leases that ended with this process's former owner row: those that last as long as
// their process. Those with a TTL are renewed in time.
func (k *keepers) died() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for one := range k.all {
		if one.ttl == 0 {
			one.cancel(errDied)
		}
	}
}

// end ends all leases.
func (k *keepers) end(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for one := range k.all {
		one.cancel(cause)
	}
}
