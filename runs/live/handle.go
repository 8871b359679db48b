package live

import (
	"context"
	"sync"
)

// A CancellationToken is how a run that is under way is told to stop. It fires once and stays so.
type CancellationToken struct {
	ctx  context.Context
	fire context.CancelFunc
}

// NewCancellationToken gives a token that has not fired.
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

// SetCurrent names the current run, and the token that stops it; nil means that nothing can be stopped.
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

// A CancelHook is told that a handle cancelled a run.
type CancelHook interface {
	RecordRunCancelled(ctx context.Context, runID, sessionID, reason string)
}

// cancelledByHost is the reason that a CancelHook gets.
const cancelledByHost = "cancelled by host"

// A RunHandle is one run, for those who watch it and may stop it.
type RunHandle struct {
	id        string
	sessionID string
	store     *Store
	session   *Session
	hook      CancelHook
}

// NewRunHandle gives a handle on a run, whether it is there or not; sessionID is what the hook is
// told. hook may be nil.
func NewRunHandle(id, sessionID string, store *Store, session *Session, hook CancelHook) *RunHandle {
	return &RunHandle{id: id, sessionID: sessionID, store: store, session: session, hook: hook}
}

// ID is the run's id.
func (h *RunHandle) ID() string { return h.id }

// SessionID is the session that the handle was made with.
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
// the run is marked cancelled, whatever its status, and the hook is told. It reports whether it did
// so; a second call does it again. A run that the store doesn't have is stopped all the same. With
// an error the token has fired and the hook knows, but the mark is not known to be stored.
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
