package workers

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db"
	"selvedge/internal/stores"
)

// A RuntimeError is a call that the runtime refused.
type RuntimeError struct {
	// Kind is RuntimeStopped, which wraps db.ErrConflict; WorkerNotFound, which wraps db.ErrNotFound;
	// StoreCorrupt, which wraps db.ErrCorrupt; or WrongRuntime, WrongRuntimeCursor, LimitTooLarge or
	// InvalidRequest, which wrap db.ErrInvalid.
	Kind string
	text string
}

const (
	kindRuntimeStopped = "RuntimeStopped"
	kindWorkerNotFound = "WorkerNotFound"
	kindStoreCorrupt   = "StoreCorrupt"
)

// Error describes the refusal.
func (e *RuntimeError) Error() string { return e.text }

// Unwrap returns the sentinel of the kind, with a hint if a person can act.
func (e *RuntimeError) Unwrap() error {
	of := &db.Error{Op: "call runtime"}
	switch e.Kind {
	case kindRuntimeStopped:
		of.Entity, of.Err = "runtime", db.ErrConflict
		of.Hint = "open another runtime: one that was stopped stays so"
	case kindWorkerNotFound:
		of.Entity, of.Err = "worker", db.ErrNotFound
		of.Hint = "see what there is: migrate workers list"
	case kindStoreCorrupt:
		return db.ErrCorrupt
	default:
		return db.ErrInvalid
	}
	return of
}

func refusal(kind, format string, args ...any) error {
	return &RuntimeError{Kind: kind, text: fmt.Sprintf(format, args...)}
}

func workerNotFound(ref WorkerRef) error {
	return refusal(kindWorkerNotFound, "worker %s was not found in runtime %s", ref.WorkerID, ref.RuntimeID)
}

func limitTooLarge(requested, most uint64) error {
	return refusal("LimitTooLarge", "limit %d exceeds maximum %d", requested, most)
}

func invalidRequest(text string) error {
	return refusal("InvalidRequest", "invalid request: %s", text)
}

// corrupted is the refusal of stored data that can't be read.
func corrupted(what string, err error) error {
	return refusal(kindStoreCorrupt, "runtime store %s found corrupt data: %v", what, corrupt(err))
}

// corrupt returns the error about a row that this program would not write.
func corrupt(err error) error { return fmt.Errorf("%w: %w", db.ErrCorrupt, err) }

// refused returns a RuntimeError as it is, without the operation that db names around every error.
func refused(err error) error {
	if refusal, ok := errors.AsType[*RuntimeError](err); ok {
		return refusal
	}
	return err
}

// call is stores.Get with errors as refused returns them.
func call[X, T any](ctx context.Context, run stores.In[X], op string, do func(X) (T, error)) (T, error) {
	answer, err := stores.Get(ctx, run, op, do)
	return answer, refused(err)
}
