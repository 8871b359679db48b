package web

import (
	"context"
	"sync"
	"time"
)

// A kept is a value that takes long to read. Once it is old, it is read again while pages still show it.
type kept[T any] struct {
	mu      sync.Mutex
	value   T
	at      time.Time // when it was read; zero: not yet
	err     error     // of the last reading
	reading chan struct{}
}

const (
	keptFor = time.Minute
	// moment is how long a page waits for what takes long. Then it says so, and a browser with scripts
	// asks again.
	moment = 200 * time.Millisecond
)

// get returns the value, and when it was read: never, if a first reading takes longer than a page waits.
func (k *kept[T]) get(ctx context.Context, read func(context.Context) (T, error)) (value T,
	at time.Time, err error,
) {
	k.mu.Lock()
	if time.Since(k.at) > keptFor && k.reading == nil {
		done := make(chan struct{})
		k.reading = done
		go func() {
			value, err := read(context.WithoutCancel(ctx))
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.err = err; err == nil {
				k.value, k.at = value, time.Now()
			}
			k.reading = nil
			close(done)
		}()
	}
	reading, never := k.reading, k.at.IsZero()
	k.mu.Unlock()
	if reading != nil && never {
		select {
		case <-reading:
		case <-time.After(moment):
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value, k.at, k.err
}
