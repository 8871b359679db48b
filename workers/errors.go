package workers

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db"
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

// Error says what was refused.
func (e *RuntimeError) Error() string { return e.text }

// Unwrap returns the sentinel of the kind, with a hint if a person can act.
func (e *RuntimeError) Unwrap() error {
	switch e.Kind {
	case kindRuntimeStopped:
		return &db.Error{
			Op: opCall, Entity: "runtime", Err: db.ErrConflict,
			Hint: "open another runtime: one that was stopped stays so",
		}
	case kindWorkerNotFound:
		return &db.Error{
			Op: opCall, Entity: "worker", Err: db.ErrNotFound,
			Hint: "see what there is: migrate workers list",
		}
	case kindStoreCorrupt:
		return db.ErrCorrupt
	}
	return db.ErrInvalid
}

const opCall = "call runtime"

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

// corrupt is the error about a row that this program does not write so.
func corrupt(err error) error { return fmt.Errorf("%w: %w", db.ErrCorrupt, err) }

// refused returns a RuntimeError as it is, without the operation that db names around every error.
func refused(err error) error {
	if refusal, ok := errors.AsType[*RuntimeError](err); ok {
		return refusal
	}
	return err
}

// call runs do in a transaction of run, a method of db.DB, and returns its answer.
func call[X, T any](ctx context.Context, run func(context.Context, string, func(X) error) error, op string,
	do func(X) (T, error),
) (answer T, err error) {
	err = run(ctx, op, func(tx X) (err error) {
		answer, err = do(tx)
		return err
	})
	if err != nil {
		return *new(T), refused(err)
	}
	return answer, nil
}
