package live

import (
	"context"
	"sync"
)

// A CancellationToken tells a running agent to stop. It fires once.
type CancellationToken struct {
	ctx  context.Context
	fire context.CancelFunc
}

// NewCancellationToken returns a token that has not fired.
func NewCancellationToken() *CancellationToken {
	ctx, fire := context.WithCancel(context.Background())
	return &CancellationToken{ctx: ctx, fire: fire}
}

// Cancel fires the token.
func (t *CancellationToken) Cancel() { t.fire() }

// IsCancelled reports whether the token has fired.
func (t *CancellationToken) IsCancelled() bool { return t.ctx.Err() != nil }

// Done is closed when the token fires.
func (t *CancellationToken) Done() <-chan struct{} { return t.ctx.Done() }

// A Session is what the handles of one session share in this process: which run is current, and its
// token. The zero value has neither. Its methods are safe for concurrent use.
type Session struct {
	mu      sync.Mutex
	current string
	token   *CancellationToken
}

// SetCurrent sets the current run, and the token that stops it; without a token no run can be stopped.
func (s *Session) SetCurrent(runID string, t *CancellationToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.token = runID, t
}

// cancellation is the token of a run, if that is the current one and has a token.
func (s *Session) cancellation(runID string) *CancellationToken {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != runID {
		return nil
	}
	return s.token
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

// NewRunHandle returns a handle of a run, which need not exist; sessionID is for the hook, which may
// be nil.
func NewRunHandle(id, sessionID string, store *Store, session *Session, hook CancelHook) *RunHandle {
	return &RunHandle{id: id, sessionID: sessionID, store: store, session: session, hook: hook}
}

// ID is the run's id.
func (h *RunHandle) ID() string { return h.id }

// SessionID is the session id given to NewRunHandle.
func (h *RunHandle) SessionID() string { return h.sessionID }

// Snapshot is Store.Snapshot.
func (h *RunHandle) Snapshot(ctx context.Context) (run RunSnapshot, found bool, err error) {
	return h.store.Snapshot(ctx, h.id)
}

// Events is Store.Events.
func (h *RunHandle) Events(ctx context.Context) ([]RunEventRecord, error) {
	return h.store.Events(ctx, h.id)
}

// Status is the status of Snapshot.
func (h *RunHandle) Status(ctx context.Context) (status RunStatus, found bool, err error) {
	run, found, err := h.store.Snapshot(ctx, h.id)
	return run.Status, found, err
}

// Cancel stops the run if it is its session's current one and there is a token: the token fires,
// the run is marked cancelled, whatever its status, and the hook is called. It reports whether it
// did so; a second call does it again. The run need not exist in the store. After an error the
// token has fired and the hook was called, but the mark may not be stored.
func (h *RunHandle) Cancel(ctx context.Context) (cancelled bool, err error) {
	token := h.session.cancellation(h.id)
	if token == nil {
		return false, nil
	}
	token.Cancel()
	_, _, err = h.store.MarkCancelled(ctx, h.id)
	if h.hook != nil {
		h.hook.RecordRunCancelled(ctx, h.id, h.sessionID, cancelledByHost)
	}
	return true, err
}
