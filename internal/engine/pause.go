package engine

import (
	"context"
	"time"
)

// Pause waits, and reports whether ctx let it.
func Pause(ctx context.Context, d time.Duration) bool {
	clock := time.NewTimer(d)
	defer clock.Stop()
	select {
	case <-clock.C:
		return true
	case <-ctx.Done():
		return false
	}
}
