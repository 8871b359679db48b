package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"selvedge/db"
)

// A wait shorter than noteAfter is not reported. Waits are checked every waitPoll.
const (
	noteAfter = 2 * time.Second
	waitPoll  = 100 * time.Millisecond
)

// endless is how long to wait for a lock without --wait.
const endless = 1000 * time.Hour

// patiently calls open, which returns on a busy file after a lock timeout. The first call has a
// short timeout, to name the process that holds the file; the second waits until --wait is over,
// or without end. A server reports the holders during the wait, so one call is enough.
func (a *app) patiently(ctx context.Context, o db.Options, open func(db.Options) error) error {
	patience := endless
	if a.wait > 0 {
		patience = a.wait
	}
	if a.onServer() {
		o.LockTimeout = patience
		return open(o)
	}
	o.LockTimeout = min(patience, noteAfter)
	err := open(o)
	if !errors.Is(err, db.ErrBusy) || patience <= noteAfter || ctx.Err() != nil {
		return err
	}
	a.noteFileWait(heldBy(err))
	o.LockTimeout = patience - noteAfter
	return open(o)
}

// waitBound describes how long a wait may last.
func (a *app) waitBound(of string) string {
	if a.wait > 0 {
		return fmt.Sprintf("for %v in all%s", a.wait, of)
	}
	return "--wait bounds this"
}

// noteLockWait reports which sessions of the server hold what the command waits for.
func (a *app) noteLockWait(holders []db.ServerSession) {
	a.note("waiting for a lock of %s (%s)", strings.Join(each(holders, sessionName), " and "),
		a.waitBound(", for each lock"))
}

// sessionName describes a session of the server.
func sessionName(s db.ServerSession) string {
	name := fmt.Sprintf("process %d of the server", s.PID)
	if s.PID == 0 {
		name = "a prepared transaction"
	}
	open, state := "", s.State
	if s.For > 0 {
		open = s.For.Round(time.Second).String() + " in its transaction"
	}
	if state == "active" {
		state = ""
	}
	empty := func(word string) bool { return word == "" }
	more := slices.DeleteFunc([]string{s.Program, s.User, open, state}, empty)
	if len(more) == 0 {
		return name
	}
	return name + " (" + printable(strings.Join(more, ", ")) + ")"
}

func (a *app) noteFileWait(pids []int) {
	who := "another process"
	if len(pids) > 0 {
		who = fmt.Sprintf("process %d", pids[0])
	}
	a.note("waiting for %s, which has the file (%s)", who, a.waitBound(""))
}

// watchWaits watches the calls on an open file until off is called. It reports a call that waits
// for another process after a while, and after --wait it ends the command.
func (a *app) watchWaits(ctx context.Context, d *db.DB) (off func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		clock := time.NewTicker(waitPoll)
		defer clock.Stop()
		var since time.Time
		said := false
		for {
			select {
			case <-ctx.Done():
				return
			case <-clock.C:
			}
			h, err := d.Health(ctx)
			switch {
			case err != nil || h.Waiting == 0 || h.Writing != "":
				since, said = time.Time{}, false
			case since.IsZero():
				since = time.Now().Add(-waitPoll)
			case a.wait > 0 && time.Since(since) >= a.wait:
				a.stop(fail(kindBusy, "give it more time: "+a.longer("--wait", a.wait), "--wait %v passed", a.wait))
				return
			case !said && time.Since(since) >= noteAfter:
				said = true
				a.noteFileWait(h.HeldBy)
			}
		}
	}()
	return func() { cancel(); <-ended }
}
