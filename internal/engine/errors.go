package engine

import (
	"context"
	"errors"
	"fmt"
)

// The sentinels that every layer wraps. Package db exports them and documents their meaning.
var (
	ErrNotFound       = errors.New("not found")
	ErrConflict       = errors.New("conflict")
	ErrInvalid        = errors.New("invalid argument")
	ErrBusy           = errors.New("busy")
	ErrLeaseLost      = errors.New("lease lost")
	ErrOutcomeUnknown = errors.New("outcome unknown")
	ErrCursorExpired  = errors.New("cursor expired")
	ErrCorrupt        = errors.New("corrupt")
	ErrFull           = errors.New("disk full")
	ErrIO             = errors.New("input/output error")
	ErrSchemaTooNew   = errors.New("schema too new")
	ErrNotADatabase   = errors.New("not a selvedge database")
	ErrUnsupported    = errors.New("unsupported")
	ErrReplaced       = errors.New("file replaced")
	ErrMoved          = errors.New("moved")
	ErrClosed         = errors.New("closed")
)

// A Constraint is the rule that a change would have broken.
type Constraint int

// The rules.
const (
	NoConstraint    Constraint = iota
	OtherConstraint            // CHECK, NOT NULL, a foreign key or a trigger
	Unique                     // UNIQUE or PRIMARY KEY
)

// A Statement describes what is wrong with a user's statement. The zero value means nothing.
type Statement struct {
	Wrong  bool   // it can't be compiled, or fails while it runs
	Writes bool   // it would change something, and must not
	Table  string // the missing table or view that it names,
	Column string // or the missing column
}

// A Relation is a table or a view.
type Relation struct {
	Name    string
	View    bool
	Columns []string
}

// A Failure is an error of the database itself, or of the wait for it.
type Failure struct {
	Kind       error      // the sentinel that it wraps; nil if none fits
	Constraint Constraint // the rule that a change would have broken
	Code       int        // the database's own code; 0 when it did not fail
	HeldBy     []int      // pids of the processes that the call waited for, if the system reports them
	Statement  Statement  // what is wrong with the statement itself
	Hint       string     // what a person can do about it; may be empty
	Err        error      // the cause
}

// Error returns the kind and the cause.
func (f *Failure) Error() string {
	if f.Kind == nil {
		return f.Err.Error()
	}
	return f.Kind.Error() + ": " + f.Err.Error()
}

// Unwrap returns the kind and the cause, for errors.Is and errors.As.
func (f *Failure) Unwrap() []error {
	if f.Kind == nil {
		return []error{f.Err}
	}
	return []error{f.Kind, f.Err}
}

// Failf returns a failure of a kind with a hint. The format is that of its cause, as fmt.Errorf
// takes it.
func Failf(kind error, hint, format string, args ...any) error {
	return &Failure{Kind: kind, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// EndedBefore returns the error of a call whose context had ended before the call began.
func EndedBefore(ctx context.Context) error {
	return fmt.Errorf("the context had ended before the call: %w", context.Cause(ctx))
}

// BlamesStatement reports whether err blames the statement, as a person wrote it: it does not
// compile, names something that does not exist, fails while running, or would write.
func BlamesStatement(err error) (s Statement, blamed bool) {
	f, ok := errors.AsType[*Failure](err)
	if !ok || !f.Statement.Wrong && !f.Statement.Writes {
		return s, false
	}
	return f.Statement, true
}
