package dbtest

import (
	"testing"
	"time"
)

// patience is how long a test waits for what must come. It measures nothing: only what never comes takes it.
const patience = 2 * time.Minute

// Await polls until so returns true, and fails the test if it never does.
func Await(t testing.TB, what string, so func() bool) {
	t.Helper()
	pause := time.Millisecond
	for end := time.Now().Add(patience); !so(); <-time.After(pause) {
		if time.Now().After(end) {
			t.Fatalf("after %v it is not so that %s", patience, what)
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// Receive returns the next value of a channel, and fails the test if none comes or the channel is
// closed.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	clock := time.NewTimer(patience)
	defer clock.Stop()
	select {
	case got := <-from:
		return got
	case <-clock.C:
		t.Fatalf("after %v there is still not %s", patience, what)
		panic("unreachable")
	}
}
