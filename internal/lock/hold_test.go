package lock_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
)

func share(t *testing.T, path string) *lock.Hold {
	t.Helper()
	l, err := lock.Share(t.Context(), path, false, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestExclusive_OneAtATimeHoldsNothingElse(t *testing.T) {
	const holders = 20
	path := filepath.Join(t.TempDir(), "a.db-lock")
	stays := share(t, path)
	var looking, together, looks, changed atomic.Int32
	var mu sync.Mutex // the file
	enough := func() (bool, error) {
		if looking.Add(1) > 1 {
			together.Add(1)
		}
		defer looking.Add(-1)
		if looks.Add(1) == 2 { // the first of the file's users leaves once somebody has looked in vain
			_ = stays.Close()
		}
		for range 1000 { // time for others to look too
			runtime.Gosched()
		}
		mu.Lock()
		defer mu.Unlock()
		return changed.Load() > 0, nil
	}
	var all sync.WaitGroup
	for range holders {
		l := share(t, path)
		all.Go(func() {
			alone, err := l.Alone(t.Context(), time.Minute, enough)
			if err != nil {
				t.Error(err)
			}
			if alone {
				mu.Lock()
				changed.Add(1)
				mu.Unlock()
				if err := l.Again(t.Context(), time.Minute); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if together.Load() > 0 {
		t.Errorf("%d times somebody looked while another did", together.Load())
	}
	if changed.Load() == 0 {
		t.Error("nobody had the file alone")
	}
}

func TestExclusive_FailureReturnsToShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db-lock")
	other := share(t, path)
	l := share(t, path)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller went away")
	_, err := l.Alone(ctx, time.Minute, func() (bool, error) { cancel(gone); return false, nil })
	if !errors.Is(err, engine.ErrBusy) || !errors.Is(err, gone) {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if alone, err := share(t, path).TryAlone(); alone || err != nil {
		t.Errorf("another has it alone (%v)", err)
	}
}

func TestOpen_WaiterLeavesIfFileReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db-lock")
	there := func() error { return nil }
	if err := share(t, path).On(t.Context(), 1, time.Minute, there); err != nil {
		t.Fatal(err)
	}
	replaced := errors.New("replaced")
	looks := 0
	err := share(t, path).On(t.Context(), 2, time.Minute, func() error {
		if looks++; looks < 3 {
			return nil
		}
		return replaced
	})
	if !errors.Is(err, replaced) {
		t.Errorf("it ended with %v", err)
	}
}
