package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"selvedge/internal/machine"
	"selvedge/internal/sqlite"
	"selvedge/migrations"
)

// What the tests of package db_test need from the inside.

// MaxGroup is the most callers that share a commit.
const MaxGroup = sqlite.MaxGroup

// ReserveBytes is the size of FILE-reserve.
const ReserveBytes = sqlite.ReserveBytes

// WithGapPatience has the WAL grow over reads that take longer than patience.
func WithGapPatience(t testing.TB, patience time.Duration) {
	before := sqlite.GapPatience
	sqlite.GapPatience = patience
	t.Cleanup(func() { sqlite.GapPatience = before })
}

// WithBusyWriters takes every handle for one that writes often. The function that it gives writes
// until the system tells the handle's writer of what changes beside the file.
func WithBusyWriters(t testing.TB) (begin func(*DB)) {
	before := sqlite.BusyLooks
	sqlite.BusyLooks = 1
	t.Cleanup(func() { sqlite.BusyLooks = before })
	return func(d *DB) {
		t.Helper()
		for range 100 {
			watching, err := d.file().Watching(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if watching {
				return
			}
		}
		t.Fatal("the system tells nothing: see /proc/sys/fs/inotify/max_user_instances")
	}
}

// WriterPragma runs a pragma on the writing connection, in a transaction of its own.
func (d *DB) WriterPragma(t *testing.T, text string) string {
	t.Helper()
	got, err := d.file().WriterPragma(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (d *DB) file() *sqlite.Engine { return d.store.Engine.(*sqlite.Engine) }

// Statements are the texts that the handle keeps prepared, and none once it is closed: see the engine's.
func (d *DB) Statements(t testing.TB) []string {
	t.Helper()
	texts, err := d.file().Statements(context.Background())
	if err != nil && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	return texts
}

// Waiting is the number of callers in the writer's queue.
func (d *DB) Waiting() int { return d.file().Waiting() }

// WithLadder replaces the program's schema versions.
func (o Options) WithLadder(files fs.FS, steps []migrations.Step, views string) Options {
	o.ladder = sqlite.NewLadder(files, steps, views)
	return o
}

// WithStep adds a schema version to the ones that WithLadder gave.
func (o Options) WithStep(step migrations.Step, text string) Options {
	files := fstest.MapFS{}
	names, err := fs.Glob(o.ladder.Files, "*.sql")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(o.ladder.Files, name)
		if err != nil {
			panic(err)
		}
		files[name] = &fstest.MapFile{Data: data}
	}
	files[fmt.Sprintf("%05d_step.sql", step.Version)] = &fstest.MapFile{Data: []byte(text)}
	return o.WithLadder(files, append(slices.Clone(o.ladder.Steps), step), o.ladder.Views())
}

// OnVisit gives a channel that is closed when a call begins that Close waits for.
func (d *DB) OnVisit() <-chan struct{} { return d.file().OnVisit() }

// Files are the migrations.
func (o Options) Files() fs.FS { return o.ladder.Files }

// WithViews replaces the views.
func (o Options) WithViews(views string) Options {
	return o.WithLadder(o.ladder.Files, o.ladder.Steps, views)
}

// Resting reports whether the care of the file waits for the next write.
func (d *DB) Resting() bool { return d.file().Resting() }

// Closing reports whether the writer refuses new calls.
func (d *DB) Closing() bool { return d.file().Closing() }

// WithoutWriteNotices makes the system tell nothing of writes, as macOS does, until the test has ended.
func WithoutWriteNotices(t testing.TB) {
	before := machine.WatchWrites
	machine.WatchWrites = func(string) (*machine.Writes, error) { return nil, errors.ErrUnsupported }
	t.Cleanup(func() { machine.WatchWrites = before })
}

// WriteNotices gives the channels on which the system has told watchers of writes since, until the
// test has ended.
func WriteNotices(t testing.TB) (notices func() []<-chan struct{}) {
	before := machine.WatchWrites
	var mu sync.Mutex
	var list []<-chan struct{}
	machine.WatchWrites = func(path string) (*machine.Writes, error) {
		w, err := before(path)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, w.Seen)
		}
		return w, err
	}
	t.Cleanup(func() { machine.WatchWrites = before })
	return func() []<-chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}
