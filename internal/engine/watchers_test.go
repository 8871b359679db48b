package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"selvedge/internal/engine"
)

// elsewhere counts what tells of commits elsewhere: how often it was begun, and how many have not ended.
type elsewhere struct{ begun, open int }

func (e *elsewhere) begin(context.Context) (func() error, error) {
	e.begun++
	e.open++
	return func() error { e.open--; return nil }, nil
}

func changes(ctx context.Context, w *engine.Watchers) (<-chan struct{}, error) {
	f, err := w.Join(ctx, engine.NoStream)
	if err != nil {
		return nil, err
	}
	return f.Changes, nil
}

func TestOneTellsOfCommitsElsewhereWhileAnybodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e elsewhere
		w := engine.NewWatchers(e.begin)
		a, leaveA := context.WithCancel(t.Context())
		b, leaveB := context.WithCancel(t.Context())
		first, err := changes(a, w)
		second, err2 := changes(b, w)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		w.Tell()
		w.Tell() // nobody looked in between
		<-first
		<-second
		leaveA()
		synctest.Wait()
		if _, open := <-first; open || e != (elsewhere{1, 1}) {
			t.Fatalf("after one of two left: %+v, open %v", e, open)
		}
		leaveB()
		synctest.Wait()
		if e != (elsewhere{1, 0}) {
			t.Fatalf("after all left: %+v", e)
		}
		third, err := changes(t.Context(), w)
		if err != nil || e != (elsewhere{2, 1}) {
			t.Fatalf("after another came: %v, %+v", err, e)
		}
		if err := w.Close(); err != nil || e != (elsewhere{2, 0}) {
			t.Fatalf("after closing: %v, %+v", err, e)
		}
		if _, open := <-third; open {
			t.Error("a channel is open after closing")
		}
		if _, err := changes(t.Context(), w); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("who comes after closing: %v", err)
		}
	})
}

// A start that waits for a server lasts until the one who caused it has enough of it, or the handle
// is closed.
func TestAStartEndsWithThoseWhoWantIt(t *testing.T) {
	wait := func(ctx context.Context) (func() error, error) {
		<-ctx.Done()
		return nil, errors.New("not connected")
	}
	t.Run("context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := engine.NewWatchers(wait)
			enough := errors.New("enough")
			first, leaveFirst := context.WithCancelCause(t.Context())
			second, leaveSecond := context.WithCancelCause(t.Context())
			ends := make(chan error)
			go func() { _, err := changes(first, w); ends <- err }()
			synctest.Wait()
			go func() { _, err := changes(second, w); ends <- err }()
			synctest.Wait()
			leaveSecond(enough) // behind the first, it leaves alone
			if err := <-ends; !errors.Is(err, enough) {
				t.Errorf("who waited behind a start: %v", err)
			}
			leaveFirst(enough)
			if err := <-ends; !errors.Is(err, enough) {
				t.Errorf("who started: %v", err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("context, seen by the start first", func(t *testing.T) {
		enough := errors.New("enough")
		ctx, leave := context.WithCancelCause(t.Context())
		w := engine.NewWatchers(func(context.Context) (func() error, error) {
			leave(enough)
			return nil, errors.New("not connected")
		})
		if _, err := changes(ctx, w); !errors.Is(err, enough) {
			t.Errorf("who started: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := engine.NewWatchers(wait)
			ends := make(chan error)
			go func() { _, err := changes(t.Context(), w); ends <- err }()
			synctest.Wait()
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ends; !errors.Is(err, engine.ErrClosed) {
				t.Errorf("who started: %v", err)
			}
		})
	})
}

func TestOpen_FailedStartIsRetried(t *testing.T) {
	var e elsewhere
	broken := errors.New("broken")
	w := engine.NewWatchers(func(ctx context.Context) (func() error, error) {
		if e.begun == 0 {
			e.begun++
			return nil, broken
		}
		return e.begin(ctx)
	})
	if _, err := changes(t.Context(), w); !errors.Is(err, broken) {
		t.Fatalf("the first: %v", err)
	}
	if _, err := changes(t.Context(), w); err != nil || e.open != 1 {
		t.Fatalf("the second: %v, %+v", err, e)
	}
	if err := w.Close(); err != nil || e.open != 0 {
		t.Errorf("closing: %v, %+v", err, e)
	}
}

// A watcher that can't look at everything at once still hears of the rows that are named.
func TestFeed_NamesRowsBesideUnknownOnes(t *testing.T) {
	w := engine.NewWatchers((&elsewhere{}).begin)
	f, err := w.Join(t.Context(), engine.Runs)
	if err != nil {
		t.Fatal(err)
	}
	var half engine.Touched
	half.All = true
	half.Add(engine.Touch{Stream: engine.Runs, Key: 2})
	for _, commit := range []engine.Touched{
		{Rows: []engine.Touch{{Stream: engine.Runs, Key: 1}}},
		{All: true},
		half,
		{Rows: []engine.Touch{{Stream: engine.Agents, Key: 3}, {Stream: engine.Runs, Key: 4}}},
	} {
		w.Touched(commit)
	}
	if keys, all := f.Take(); !slices.Equal(keys, []int64{1, 2, 4}) || !all {
		t.Errorf("took %v, all %v", keys, all)
	}
	if keys, all := f.Take(); len(keys) > 0 || all {
		t.Errorf("took %v, all %v, again", keys, all)
	}
	const most = 10_000
	var many engine.Touched
	for key := range int64(most + 1) {
		many.Add(engine.Touch{Stream: engine.Runs, Key: key})
	}
	w.Touched(many)
	w.Touched(engine.Touched{Rows: []engine.Touch{{Stream: engine.Runs, Key: most}}})
	if keys, all := f.Take(); len(keys) != most || !all {
		t.Errorf("took %d keys, all %v, of more than are kept", len(keys), all)
	}
}
