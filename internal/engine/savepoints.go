package engine

import "fmt"

// Savepoints are the open savepoints of a write transaction, and what is to run when it is
// committed or undone: undoing a savepoint undoes what was registered within it.
type Savepoints struct {
	Depth     int
	Committed []func() // to run after the commit
	undone    []func()
}

// A Mark is where a savepoint begins.
type Mark struct{ depth, committed, undone int }

// OnCommit has fn run after the commit.
func (s *Savepoints) OnCommit(fn func()) { s.Committed = append(s.Committed, fn) }

// OnRollback has fn run when the transaction is undone, or the savepoint that it was asked for in.
func (s *Savepoints) OnRollback(fn func()) { s.undone = append(s.undone, fn) }

// RolledBack runs, once, what was registered for a rollback of the transaction.
func (s *Savepoints) RolledBack() {
	undone := s.undone
	s.undone = nil
	for _, f := range undone {
		f()
	}
}

// Mark is where the next savepoint begins. It counts once it is Opened.
func (s *Savepoints) Mark() Mark { return Mark{s.Depth + 1, len(s.Committed), len(s.undone)} }

// Name is the savepoint's, in SQL.
func (m Mark) Name() string { return fmt.Sprintf("inner_%d", m.depth) }

// Holds reports whether the savepoint was open where the transaction had so many of them.
func (m Mark) Holds(depth int) bool { return depth >= m.depth }

// Opened says that the savepoint is there.
func (s *Savepoints) Opened(m Mark) { s.Depth = m.depth }

// Ended says that it is not any more. After an error the whole transaction has to be undone.
func (s *Savepoints) Ended(m Mark) error {
	innermost := s.Depth == m.depth
	s.Depth--
	if !innermost {
		return fmt.Errorf("%w: savepoints of several goroutines overlap", ErrInvalid)
	}
	return nil
}

// Undone runs what was registered for a rollback of the savepoint, and forgets what was registered
// within it.
func (s *Savepoints) Undone(m Mark) {
	s.Committed = s.Committed[:m.committed]
	for _, f := range s.undone[m.undone:] {
		f()
	}
	s.undone = s.undone[:m.undone]
}

// StillOpen is the error of a function that returned within a savepoint, which may be half done.
func (s *Savepoints) StillOpen() error {
	if s.Depth == 0 {
		return nil
	}
	return fmt.Errorf("%w: a savepoint was still open when the function returned", ErrInvalid)
}
