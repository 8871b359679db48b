package postgres

import (
	"context"
	"testing"
	"time"
)

// SQLForgettable is the statement that finds the dead who own nothing.
const SQLForgettable = sqlForgettable

// SQLObjects is the statement that lists what the tables have.
const SQLObjects = sqlObjects

// SetPatience says for how long a call waits for a primary.
func (e *Engine) SetPatience(d time.Duration) {
	e.patience = d
	e.scout.mu.Lock()
	defer e.scout.mu.Unlock()
	e.scout.patience = d
}

// SetAlonePatience says for how long a call that wants to be alone waits for each lock.
func (e *Engine) SetAlonePatience(d time.Duration) { e.alonePatience = d }

// WithLatchPatience has calls wait so long for others that lock the same rows.
func WithLatchPatience(t testing.TB, d time.Duration) {
	before := latchPatience
	latchPatience = d
	t.Cleanup(func() { latchPatience = before })
}

// WithMostLooks has calls look so often for rows that others lock.
func WithMostLooks(t testing.TB, n int) {
	before := mostLooks
	mostLooks = n
	t.Cleanup(func() { mostLooks = before })
}

// WithScouts has handles that are opened until the test ends ask the hosts so often who is the primary.
func WithScouts(t testing.TB, every time.Duration) {
	before := scoutEvery
	scoutEvery = every
	t.Cleanup(func() { scoutEvery = before })
}

// ForgetPrimary has the handle ask the hosts before its next read, as one does that nobody has used
// for a while.
func (e *Engine) ForgetPrimary() {
	e.scout.mu.Lock()
	defer e.scout.mu.Unlock()
	e.scout.asked = time.Time{}
}

// WithClosePatience has goodbyes of the test wait so long for an answer.
func WithClosePatience(t testing.TB, d time.Duration) {
	before := closePatience
	closePatience = d
	t.Cleanup(func() { closePatience = before })
}

// WithScrubPatience has Scrub wait for so long for others until the test ends.
func WithScrubPatience(t testing.TB, d time.Duration) {
	before := scrubPatience
	scrubPatience = d
	t.Cleanup(func() { scrubPatience = before })
}

// WithBeats has processes beat so often until the test ends, and live for as long without as before.
func WithBeats(t testing.TB, every time.Duration) {
	before := beatPause
	beatPause = func(*Address) time.Duration { return every }
	t.Cleanup(func() { beatPause = before })
}

// EndWhatIsSilent is what the scout does every now and then.
func (e *Engine) EndWhatIsSilent(ctx context.Context) {
	e.scout.ask(ctx, 0)
	e.scout.endSilent()
}

// Look is what a read does first with several hosts.
func (e *Engine) Look(ctx context.Context) { e.scout.look(ctx) }

// WhileHostsAreAsked runs fn while another caller asks the hosts.
func (e *Engine) WhileHostsAreAsked(fn func()) {
	e.scout.asking <- struct{}{}
	defer func() { <-e.scout.asking }()
	fn()
}

// WithWaitsReported has waits for locks told at once until the test ends.
func WithWaitsReported(t testing.TB) {
	after, every := reportAfter, reportEvery
	reportAfter, reportEvery = 0, time.Millisecond
	t.Cleanup(func() { reportAfter, reportEvery = after, every })
}

// HoldCommits has commits that are without an answer not looked at until the test ends, but by what
// it gives: the look of each commit, as far as it is taken.
func HoldCommits(t testing.TB) <-chan func() {
	looks := make(chan func(), 1)
	before := afterwards
	afterwards = func(_ time.Duration, look func()) *time.Timer {
		select {
		case looks <- look:
		default:
		}
		return time.AfterFunc(time.Hour, func() {})
	}
	t.Cleanup(func() { afterwards = before })
	return looks
}

// WithCommitPatience has a handle of the test wait so long for an answer of ours.
func WithCommitPatience(t testing.TB, d time.Duration) {
	before := commitPatience
	commitPatience = d
	t.Cleanup(func() { commitPatience = before })
}
