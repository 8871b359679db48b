package engine

import (
	"context"
	"time"
)

// Pause waits for d. It reports whether it did so before ctx ended.
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
