package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

const (
	pace  = 500 * time.Millisecond // at least, between two messages of a stream
	pulse = 20 * time.Second       // between messages that only show that the client is there
	slow  = 10 * time.Second       // for a client to take a message
)

// stream tells a page that what it shows has changed: each message is an event with the cursor behind what
// changed, from which another stream goes on. For a run it follows its records; else every commit.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "Too many pages are open.", http.StatusServiceUnavailable)
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	ref, onlyLive := refOf(r), r.FormValue("live") != ""
	if onlyLive {
		ref.RunID = r.FormValue("live")
	}
	news := make(chan string)
	ended := make(chan error, 1)
	go func() {
		if ref == (runs.RunRef{}) {
			ended <- s.changes(ctx, news)
			return
		}
		ended <- s.follow(ctx, ref, onlyLive, cmp.Or(r.Header.Get("Last-Event-ID"), r.FormValue("after")), news)
	}()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(slow)) // a test's recorder has none
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && out.Flush() == nil
	}
	if !send("retry: 2000\n\n") {
		return
	}
	var cursor string
	waiting := false // for the pace
	ready := time.NewTimer(0)
	defer ready.Stop()
	paced := true // no message was sent within the pace
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	<-ready.C
	for {
		select {
		case cursor = <-news:
			waiting = true
		case <-ready.C:
			paced = true
		case <-beat.C:
			if !send(": here\n\n") {
				return
			}
		case err := <-ended:
			if ctx.Err() == nil && isFinal(err) { // a client comes back otherwise
				send("event: end\ndata: the run was removed, or the database was closed\n\n")
			}
			return
		case <-ctx.Done():
			return
		}
		if waiting && paced {
			if !send("event: changed\nid: %s\ndata: %s\n\n", cursor, cursor) {
				return
			}
			waiting, paced = false, false
			ready.Reset(pace)
		}
	}
}

// isFinal reports whether a follower that comes back would end the same way.
func isFinal(err error) bool {
	return errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrCursorExpired) ||
		errors.Is(err, db.ErrInvalid) || errors.Is(err, db.ErrClosed) || errors.Is(err, db.ErrMoved)
}

// changes sends an empty cursor at once, for what was committed since the page was made, and after each
// commit.
func (s *server) changes(ctx context.Context, to chan<- string) error {
	commits, err := s.db.Changes(ctx)
	for more := err == nil; more; _, more = <-commits {
		select {
		case to <- "":
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
