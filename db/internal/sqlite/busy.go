package sqlite

import (
	"context"
	"fmt"
	"os"
	"slices"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/lock"
)

// writerBusy is the error of a caller whose context ended before its turn: it says who has it, as far as that can be told.
func (e *Engine) writerBusy(ctx context.Context) error {
	f := &engine.Failure{Kind: engine.ErrBusy}
	who := "the writer"
	if e.writer.serving() {
		f.Hint = "another call of this process is writing; give this one more time, or make that one shorter"
	} else if f.HeldBy = e.writerHolders(); len(f.HeldBy) > 0 {
		who = "the writer, which " + lock.Name(f.HeldBy) + " has"
		f.Hint = "wait for " + lock.Name(f.HeldBy) + ", or see what it does: it may be stopped"
	} else {
		f.Hint = "another call or process is writing; try again, or give the call more time"
	}
	f.Err = fmt.Errorf("waiting for %s: %w", who, context.Cause(ctx))
	return f
}

// writerHolders are the other processes that keep this one from writing: one that has its turn, or else a program that knows
// nothing of turns, such as sqlite3, and has SQLite's own lock.
func (e *Engine) writerHolders() []int {
	if e.memory {
		return nil
	}
	if pids := lock.Holders(e.path + queueSuffix); len(pids) > 0 {
		return pids
	}
	return slices.DeleteFunc(lock.WALWriters(e.path+"-shm"), func(pid int) bool { return pid == os.Getpid() })
}

// serving reports whether a caller's function, or its commit, is running.
func (w *writer) serving() bool { return w.holds.Load() }
