package engine

import (
	"context"
	"time"
)

// Progress is how far a long call is.
type Progress struct {
	Step        string
	Done, Total int64
}

type progressKey struct{}

// WithProgress has calls that are given the context tell how far they are.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// Telling is who is to be told of progress; nil: nobody.
func Telling(ctx context.Context) func(Progress) {
	tell, _ := ctx.Value(progressKey{}).(func(Progress))
	return tell
}

// tellEvery is how often somebody is told of work that doesn't tell by itself.
const tellEvery = 100 * time.Millisecond

// Watched does the work of a step, and tells meanwhile how much of it done finds.
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
