package engine

import (
	"context"
	"time"
)

// Progress is how far a long call has come.
type Progress struct {
	Step        string
	Done, Total int64
}

type progressKey struct{}

// WithProgress makes calls that get the context report their progress.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Telling returns the context's progress function; nil if it has none.
func Telling(ctx context.Context) func(Progress) {
	tell, _ := ctx.Value(progressKey{}).(func(Progress))
	return tell
}

// tellEvery is how often Watched reports progress.
const tellEvery = 100 * time.Millisecond

// Watched runs the work of a step, and while it runs reports as progress what done returns.
func Watched(ctx context.Context, step string, total int64, done func() int64, work func() error) error {
	tell := Telling(ctx)
	if tell == nil {
		return work()
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		clock := time.NewTicker(tellEvery)
		defer clock.Stop()
		for {
			tell(Progress{step, min(done(), total), total})
			select {
			case <-over:
				return
			case <-clock.C:
			}
		}
	}()
	defer func() { close(over); <-ended }()
	return work()
}
