package workers

import (
	"errors"
	"fmt"

	"selvedge/db"
)

// ErrorKind is the sort of a RuntimeError.
type ErrorKind string

const (
	KindRuntimeStopped     ErrorKind = "RuntimeStopped"     // wraps db.ErrConflict
	KindWrongRuntime       ErrorKind = "WrongRuntime"       // wraps db.ErrInvalid
	KindWrongRuntimeCursor ErrorKind = "WrongRuntimeCursor" // wraps db.ErrInvalid
	KindWorkerNotFound     ErrorKind = "WorkerNotFound"     // wraps db.ErrNotFound
	KindLimitTooLarge      ErrorKind = "LimitTooLarge"      // wraps db.ErrInvalid
	KindInvalidRequest     ErrorKind = "InvalidRequest"     // wraps db.ErrInvalid
	KindStoreCorrupt       ErrorKind = "StoreCorrupt"       // wraps db.ErrCorrupt
)

// A RuntimeError is a call that the runtime refused.
type RuntimeError struct {
	Kind ErrorKind
	text string
}

// Error says what was refused.
func (e *RuntimeError) Error() string { return e.text }

// Unwrap gives the sentinel that the kind belongs to, with a hint where a person can do something.
func (e *RuntimeError) Unwrap() error {
	switch e.Kind {
	case KindRuntimeStopped:
		return &db.Error{
			Op: opCall, Entity: "runtime",
			Hint: "open another runtime: one that was stopped stays so", Err: db.ErrConflict,
		}
	case KindWorkerNotFound:
		return &db.Error{
			Op: opCall, Entity: "worker", Hint: "see what there is: migrate workers list",
			Err: db.ErrNotFound,
		}
	case KindStoreCorrupt:
		return db.ErrCorrupt
	}
	return db.ErrInvalid
}

const opCall = "call runtime"

func refusal(kind ErrorKind, format string, args ...any) error {
	return &RuntimeError{Kind: kind, text: fmt.Sprintf(format, args...)}
}

func runtimeStopped(id RuntimeID) error {
	return refusal(KindRuntimeStopped, "runtime %s is stopped", id)
}

func workerNotFound(ref WorkerRef) error {
	return refusal(KindWorkerNotFound, "worker %s was not found in runtime %s", ref.WorkerID, ref.RuntimeID)
}

func limitTooLarge(requested, most uint64) error {
	return refusal(KindLimitTooLarge, "limit %d exceeds maximum %d", requested, most)
}

func invalidRequest(text string) error {
	return refusal(KindInvalidRequest, "invalid request: %s", text)
}

// refused hands a RuntimeError out as it is: db names the operation around every other error.
func refused(err error) error {
	if refusal, ok := errors.AsType[*RuntimeError](err); ok {
		return refusal
	}
	return err
}
