package postgres

import "time"

// SetPatience says for how long a call waits for a primary.
func (e *Engine) SetPatience(d time.Duration) {
	e.patience = d
	e.scout.mu.Lock()
	defer e.scout.mu.Unlock()
	e.scout.patience = d
}
