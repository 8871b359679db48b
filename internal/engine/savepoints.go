package engine

import "fmt"

// Savepoints holds the open savepoints of a write transaction, and the functions to run when it is
// committed or undone. Undoing a savepoint drops the OnCommit functions registered within it.
type Savepoints struct {
	Depth     int
	Committed []func() // to run after the commit
	undone    []func()
}

// A Mark is where a savepoint begins.
type Mark struct{ depth, committed, undone int }

// OnCommit registers fn to run after the commit.
func (s *Savepoints) OnCommit(fn func()) { s.Committed = append(s.Committed, fn) }

// OnRollback registers fn to run when the transaction is undone, or the savepoint in which it was
// registered.
func (s *Savepoints) OnRollback(fn func()) { s.undone = append(s.undone, fn) }

// RolledBack runs, once, the functions registered for a rollback of the transaction.
func (s *Savepoints) RolledBack() {
	undone := s.undone
	s.undone = nil
	for _, f := range undone {
		f()
	}
}

// Mark returns where the next savepoint begins. It takes effect with Opened.
func (s *Savepoints) Mark() Mark { return Mark{s.Depth + 1, len(s.Committed), len(s.undone)} }

// Name returns the savepoint's name in SQL.
func (m Mark) Name() string { return fmt.Sprintf("inner_%d", m.depth) }

// Holds reports whether the savepoint is among the open ones of a transaction with that many.
func (m Mark) Holds(depth int) bool { return depth >= m.depth }

// Opened records that the savepoint is open.
func (s *Savepoints) Opened(m Mark) { s.Depth = m.depth }

// Ended records that the savepoint has ended. After an error the whole transaction must be undone.
func (s *Savepoints) Ended(m Mark) error {
	innermost := s.Depth == m.depth
	s.Depth--
	if !innermost {
		return fmt.Errorf("%w: savepoints of several goroutines overlap", ErrInvalid)
	}
	return nil
}

// Undone runs the functions registered for a rollback of the savepoint, and drops all those
// registered within it.
func (s *Savepoints) Undone(m Mark) {
	s.Committed = s.Committed[:m.committed]
	for _, f := range s.undone[m.undone:] {
		f()
	}
	s.undone = s.undone[:m.undone]
}

// StillOpen returns an error if a function returned within a savepoint, since that may be half
// done.
func (s *Savepoints) StillOpen() error {
	if s.Depth == 0 {
		return nil
	}
	return fmt.Errorf("%w: a savepoint was still open when the function returned", ErrInvalid)
}
