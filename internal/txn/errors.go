package txn

import (
	"fmt"

	"selvedge/internal/engine"
)

// Invalid returns an ErrInvalid that says what is wrong, with a hint that says what to do about it.
func Invalid(hint, format string, args ...any) error {
	return &engine.Failure{Kind: engine.ErrInvalid, Hint: hint, Err: fmt.Errorf(format, args...)}
}
