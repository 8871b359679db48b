package engine

import (
	"cmp"
	"slices"
	"sync"
)

// A Stream is a table whose rows followers follow one by one. Its number is written beside a file and
// sent to other processes, so it must not change.
type Stream uint8

// The streams. NoStream stands for every other table.
const (
	NoStream Stream = iota
	Agents
	Checkpoints
	LiveRuns
	Runs
	StateValues
	WorkerRuntimes
)

// StreamOf returns the stream to which the rows of a table belong, and by how many bits the key there
// is shifted in their numbers. byColumn: the rows have no numbers, and the key is their first column.
func StreamOf(table string) (of Stream, shift uint8, byColumn bool) {
	switch table {
	case "agents":
		of = Agents
	case "checkpoints":
		of = Checkpoints
	case "live_runs":
		of = LiveRuns
	case "runs":
		of = Runs
	case "run_records":
		of, shift = Runs, 24
	case "run_steps": // whether a run waits is in its steps
		of, byColumn = Runs, true
	case "state_values":
		of = StateValues
	case "worker_runtimes":
		of = WorkerRuntimes
	}
	return of, shift, byColumn
}

// A Touch is a row of a stream's table that was added, changed or removed.
type Touch struct {
	Stream Stream
	Key    int64
}

// Touched are the rows that commits touched.
type Touched struct {
	Rows []Touch
	All  bool // others may be too
}

// mostTouched bounds the rows of a commit, and of what a watcher has not taken yet. What is more is
// not named.
const mostTouched = 10_000

// Add adds a row.
func (t *Touched) Add(row Touch) {
	switch {
	case len(t.Rows) > 0 && t.Rows[len(t.Rows)-1] == row:
	case len(t.Rows) >= mostTouched:
		t.All = true
	default:
		t.Rows = append(t.Rows, row)
	}
}

// Distinct sorts the rows, each once.
func (t *Touched) Distinct() {
	slices.SortFunc(t.Rows, func(a, b Touch) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Key, b.Key))
	})
	t.Rows = slices.Compact(t.Rows)
}

// A Feed tells one watcher of commits.
type Feed struct {
	// Changes gets a value after every commit from the Join on; several may share one. It is closed
	// when the watcher's context ends.
	Changes <-chan struct{}

	stay   func() bool // stops it from following its context
	stream Stream

	mu   sync.Mutex
	keys map[int64]struct{}
	all  bool
}

// Take returns the keys that were touched since the last Take. all: others may be too. What was
// committed before a value of Changes was sent is in what is taken after it, or was in what was taken
// before. A row may be named that was not touched.
func (f *Feed) Take() (keys []int64, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys, all = make([]int64, 0, len(f.keys)), f.all
	for key := range f.keys {
		keys = append(keys, key)
	}
	clear(f.keys)
	f.all = false
	slices.Sort(keys)
	return keys, all
}

func (f *Feed) touched(t Touched) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = f.all || t.All || f.stream == NoStream
	for _, row := range t.Rows {
		switch {
		case row.Stream != f.stream:
		case len(f.keys) < mostTouched:
			f.keys[row.Key] = struct{}{}
		default:
			f.all = true
		}
	}
}

// Watched reports whether anybody watches.
func (w *Watchers) Watched() bool { return w.waiting.Load() > 0 }

// Touched notes what a commit touched, which is committed. Tell then wakes the watchers.
func (w *Watchers) Touched(t Touched) {
	if !w.Watched() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.feeds {
		f.touched(t)
	}
}
