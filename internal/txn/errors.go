package txn

import (
	"errors"
	"fmt"

	"selvedge/internal/engine"
)

// Invalid returns an ErrInvalid that says what is wrong, with a hint that says what to do about it.
func Invalid(hint, format string, args ...any) error {
	return &engine.Failure{Kind: engine.ErrInvalid, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Conflict is Invalid for an ErrConflict.
func Conflict(hint, format string, args ...any) error {
	return &engine.Failure{Kind: engine.ErrConflict, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// IsConstraint reports whether err is a violated constraint: UNIQUE, PRIMARY KEY, CHECK, NOT NULL
// or FOREIGN KEY.
func IsConstraint(err error) bool {
	f, ok := errors.AsType[*engine.Failure](err)
	return ok && f.Constraint != engine.NoConstraint
}
