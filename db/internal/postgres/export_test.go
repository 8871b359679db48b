package postgres

import (
	"testing"
	"time"
)

// SetPatience says for how long a call waits for a primary.
func (e *Engine) SetPatience(d time.Duration) {
	e.patience = d
	e.scout.mu.Lock()
	defer e.scout.mu.Unlock()
	e.scout.patience = d
}

// SetAlonePatience says for how long a call that wants to be alone waits for each lock.
func (e *Engine) SetAlonePatience(d time.Duration) { e.alonePatience = d }

// WithScouts has handles that are opened until the test ends ask the hosts so often who is the primary.
func WithScouts(t testing.TB, every time.Duration) {
	before := scoutEvery
	scoutEvery = every
	t.Cleanup(func() { scoutEvery = before })
}

// ForgetPrimary has the handle ask the hosts before its next read, as one does that nobody has used for a while.
func (e *Engine) ForgetPrimary() {
	e.scout.mu.Lock()
	defer e.scout.mu.Unlock()
	e.scout.asked = time.Time{}
}
