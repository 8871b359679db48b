package callback

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// inside runs fn from a callback of c.
func inside(c *Callbacks, fn func()) {
	c.Invoke(func() error { fn(); return nil }, func(Outcome) {})
}

func open(t *testing.T, n int) []*Callbacks {
	t.Helper()
	files := make([]*Callbacks, n)
	for i := range files {
		files[i] = &Callbacks{}
		t.Cleanup(files[i].TakeNumber())
	}
	return files
}

// Whatever number a file has, a callback is found on its own stack, and no other file's is taken for it.
func TestAnyNumberOfFilesAreToldApart(t *testing.T) {
	files := open(t, 300)
	ready, done := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range files { // each has a callback under way, elsewhere
		wg.Go(func() { inside(c, func() { ready <- struct{}{}; <-done }) })
	}
	for range files {
		<-ready
	}
	for i, outer := range files {
		inside(outer, func() {
			for j, c := range files {
				if c.Inside() != (i == j) {
					t.Errorf("in a callback of file %d, that of file %d: %v", i, j, c.Inside())
				}
			}
		})
	}
	for _, pair := range [][2]int{{0, 16}, {16, 0}, {1, 17}, {273, 17}, {17, 273}, {17, 1}} {
		inside(files[pair[0]], func() {
			inside(files[pair[1]], func() {
				for j, c := range files {
					if c.Inside() != (j == pair[0] || j == pair[1]) {
						t.Errorf("in callbacks of %v, that of file %d: %v", pair, j, c.Inside())
					}
				}
			})
		})
	}
	close(done)
	wg.Wait()
}

func TestADeepStackIsSearchedToItsEnd(t *testing.T) {
	files := open(t, 18)
	var deep func(n int, fn func())
	deep = func(n int, fn func()) {
		if n == 0 {
			fn()
			return
		}
		deep(n-1, fn)
	}
	for _, c := range files {
		inside(c, func() {
			deep(1000, func() {
				if !c.Inside() {
					t.Error("it was not found")
				}
			})
		})
	}
}

func TestANumberIsGivenAgain(t *testing.T) {
	var first, second Callbacks
	give := first.TakeNumber()
	markers := fmt.Sprint(first.markers[0].returns)
	give()
	defer second.TakeNumber()()
	give() // a second time is nothing
	var third Callbacks
	defer third.TakeNumber()()
	if fmt.Sprint(second.markers[0].returns) != markers || fmt.Sprint(third.markers[0].returns) == markers {
		t.Error("the number that was given back was not the next to be taken, or was taken twice")
	}
}

func TestHowACallbackEndedIsReported(t *testing.T) {
	c := open(t, 1)[0]
	var out Outcome
	report := func(o Outcome) { out = o }
	c.Invoke(func() error { panic("oh") }, report)
	if !out.Panicked || out.Value != "oh" || !out.Gone() || !out.Failed() {
		t.Errorf("a panic: %+v", out)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Invoke(func() error { runtime.Goexit(); return nil }, report)
	}()
	<-ended
	if !out.Goexit || out.Panicked || !out.Gone() {
		t.Errorf("a Goexit: %+v", out)
	}
	if c.Inside() {
		t.Error("after them a callback seems to run")
	}
}
