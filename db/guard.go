package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"selvedge/internal/callback"
)

// guarded runs a user's function that receives no transaction: an observer, or one for progress or
// waits. Its panic becomes an error, and its calls of the handle that owns the callbacks fail at
// once.
func guarded(callbacks *callback.Callbacks, what string, fn func()) (err error) {
	callbacks.Invoke(func() error { fn(); return nil }, func(out callback.Outcome) {
		if out.Panicked {
			err = fmt.Errorf("the function given to %s panicked: %w", what, &Panic{Value: out.Value, Stack: out.Stack})
		}
	})
	return err
}

// apart is guarded on a separate goroutine, for functions that may call runtime.Goexit, which
// becomes an error too.
func apart(callbacks *callback.Callbacks, what string, fn func()) error {
	err := fmt.Errorf("the function given to %s left by runtime.Goexit", what)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = guarded(callbacks, what, fn)
	}()
	<-done
	return err
}

// A listener is a user's function that any goroutine may call during a call of ours. After its
// first failure it is not called again, and the call returns its error.
type listener struct {
	what  string
	outer *listener // of the parent context
	mu    sync.Mutex
	err   error
}

type listenerKey struct{}

// listening is set with the first listener: until then no call looks for one.
var listening atomic.Bool

func withListener(ctx context.Context, what string) (context.Context, *listener) {
	listening.Store(true)
	outer, _ := ctx.Value(listenerKey{}).(*listener)
	l := &listener{what: what, outer: outer}
	return context.WithValue(ctx, listenerKey{}, l), l
}

// call runs fn, on a goroutine of its own, which fn may end.
func (l *listener) call(fn func()) {
	l.mu.Lock()
	failed := l.err != nil
	l.mu.Unlock()
	if failed {
		return
	}
	if err := apart(callback.Outside, l.what, fn); err != nil {
		l.mu.Lock()
		l.err = errors.Join(l.err, err)
		l.mu.Unlock()
	}
}

// Heard joins the error of a call with that of its progress function: see WithProgress.
func Heard(ctx context.Context, err error) error { return heard(ctx, err, toldOfProgress, toldOfWaits) }

const (
	toldOfProgress = "WithProgress"
	toldOfWaits    = "WithWaits"
)

func heard(ctx context.Context, err error, of ...string) error {
	if !listening.Load() {
		return err
	}
	l, _ := ctx.Value(listenerKey{}).(*listener)
	for ; l != nil; l = l.outer {
		l.mu.Lock()
		if l.err != nil && slices.Contains(of, l.what) && !errors.Is(err, l.err) {
			err = errors.Join(err, l.err)
		}
		l.mu.Unlock()
	}
	return err
}
