package live

import (
	"context"
	"sync"
)

// A Session is what the handles of one session share in this process: which run is current, and how
// it is stopped. The zero value has neither. Its methods are safe for concurrent use.
type Session struct {
	mu      sync.Mutex
	current string
	stop    context.CancelFunc
}

// SetCurrent sets the current run, and the function that stops it; with nil no run can be stopped.
func (s *Session) SetCurrent(runID string, stop context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.stop = runID, stop
}

// stopOf returns the function that stops a run, if that is the current one.
func (s *Session) stopOf(runID string) context.CancelFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != runID {
		return nil
	}
	return s.stop
}

// A CancelHook is called when a handle cancels a run.
type CancelHook interface {
	RecordRunCancelled(ctx context.Context, runID, sessionID, reason string)
}

const cancelledByHost = "cancelled by host"

// A RunHandle reads one run, and may cancel it.
type RunHandle struct {
	id        string
	sessionID string
	store     *Store
	session   *Session
	hook      CancelHook
}

// NewRunHandle returns a handle of a run, which need not exist; sessionID is for the hook, which
// may be nil.
func NewRunHandle(id, sessionID string, store *Store, session *Session, hook CancelHook) *RunHandle {
	return &RunHandle{id: id, sessionID: sessionID, store: store, session: session, hook: hook}
}

// ID returns the run's id.
func (h *RunHandle) ID() string { return h.id }

// SessionID returns the session id that was given to NewRunHandle.
func (h *RunHandle) SessionID() string { return h.sessionID }

// Snapshot is Store.Snapshot.
func (h *RunHandle) Snapshot(ctx context.Context) (run RunSnapshot, found bool, err error) {
	return h.store.Snapshot(ctx, h.id)
}

// Events is Store.Events.
func (h *RunHandle) Events(ctx context.Context) ([]RunEventRecord, error) {
	return h.store.Events(ctx, h.id)
}

// Status returns the status of Snapshot.
func (h *RunHandle) Status(ctx context.Context) (status RunStatus, found bool, err error) {
	run, found, err := h.store.Snapshot(ctx, h.id)
	return run.Status, found, err
}

// Cancel stops the run if it is its session's current one and can be stopped: it calls the
// session's function, marks the run cancelled, whatever its status, and calls the hook. It reports
// whether it did so; a second call does it again. The run need not exist in the store. After an
// error both functions were called, but the mark may not be stored.
func (h *RunHandle) Cancel(ctx context.Context) (cancelled bool, err error) {
	stop := h.session.stopOf(h.id)
	if stop == nil {
		return false, nil
	}
	stop()
	_, _, err = h.store.MarkCancelled(ctx, h.id)
	if h.hook != nil {
		h.hook.RecordRunCancelled(ctx, h.id, h.sessionID, cancelledByHost)
	}
	return true, err
}
