package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"selvedge/db"
)

// A script is a sequence of operations on one file, each of which leaves a trace of its own, so
// that each can be looked for separately. All of it is deterministic: the tracer counts calls.
type script struct {
	name string
	// prepare fills the file that every process of the script begins with. It runs once, and nothing stops it.
	prepare func(context.Context, *session) error
	// setup runs in the process before the first operation, and nothing happens to it.
	setup func(context.Context, *session) error
	ops   []op
	// first looks, after the fact, at the folder before it is opened for writing, and whole at what
	// holds whatever became of the operations.
	first func(ctx context.Context, folder string) error
	whole func(context.Context, *session) error

	schema    int64          // of the file that is prepared; 0 is the program's own
	abandoned bool           // the prepared file was left by a killed process
	closed    bool           // the process begins without a handle: an operation opens one
	crowd     bool           // operations run side by side and share commits and faults
	neighbour bool           // another process has the file open meanwhile, and goes on when this one is gone
	sync      db.Synchronous // of the handle
}

// An op is one public call.
type op struct {
	name string
	do   func(context.Context, *session) error
	look func(context.Context, *session) (trace, error) // nil if there is nothing to see
	// repeat is what a caller does, on a new handle, after an unknown outcome; nil if there is no
	// such call.
	repeat func(ctx context.Context, s *session, batch int64) error
	// gradual is an operation in several transactions, as its documentation states: a part of it
	// may be there when it was not acknowledged.
	gradual bool
	left    func(*session) []string // files that should not be in the folder, after it failed
}

// A trace is the state of an operation as read from the file.
type trace string

const (
	absent trace = "absent"
	done   trace = "done"
	// Everything else is a description of something half done.
)

// A session is what operations work with: the handle, and what earlier ones left in memory.
type session struct {
	folder string
	db     *db.DB
	kept   map[string]any
}

// fileName is the name of the database in its folder.
const fileName = "torture.db"

func (s *session) path() string { return filepath.Join(s.folder, fileName) }

// theClock stands still: a script's rows are the same at every run.
func theClock() time.Time { return time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC) }

func openSession(ctx context.Context, folder string, o db.Options) (*session, error) {
	s := &session{folder: folder, kept: map[string]any{}}
	return s, s.open(ctx, o)
}

func (s *session) open(ctx context.Context, o db.Options) (err error) {
	o.Now = theClock
	s.db, err = db.Open(ctx, s.path(), o)
	return err
}

func (s *session) close() error {
	if s.db == nil {
		return nil
	}
	d := s.db
	s.db = nil
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	return d.Shutdown(ctx)
}

func find(name string) (*script, error) {
	for i := range scripts {
		if scripts[i].name == name {
			return &scripts[i], nil
		}
	}
	return nil, fmt.Errorf("no script is called %q", name)
}

// patience is how long one operation may take, and how long the judge waits for anything.
const patience = 5 * time.Second
