package query

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/runs/live"
)

// An Event is an event of a live run, or several pieces of one text.
type Event struct {
	Sequence uint64    // of the first piece, from 0
	At       time.Time // of the first piece
	Until    time.Time // of the last piece
	Type     string    // the event's own word
	// Text is what the event says: the joined pieces, or a message, a question, a result. "": nothing
	Text    string
	Tool    string // name of the tool it is about; "": none
	Turn    uint64 // that a piece belongs to, if it says so
	Attempt uint64 // at that turn
	Dropped bool   // a later attempt at the same turn replaced these words
	JSON    []byte // of the first piece, as it was recorded
	Status  string // the live run's new status, if the item says only that
	Cursor  string // the place behind this event, for FollowLive
}

// Live returns a page of the events of a live run, in their order, with pieces of one text joined. The
// limit counts events before they are joined. The cursors are those of FollowLive.
// db.ErrNotFound: there is no such live run.
func (s *Store) Live(ctx context.Context, id string, at db.At) (page db.Page[Event], err error) {
	events, err := s.live.EventsPage(ctx, id, at)
	for _, e := range events.Items {
		event := eventOf(e)
		if n := len(page.Items); n > 0 && page.Items[n-1].continues(&event) {
			before := &page.Items[n-1]
			before.Text, before.Until, before.Cursor = before.Text+event.Text, event.Until, event.Cursor
			continue
		}
		page.Items = append(page.Items, event)
	}
	latest := map[uint64]uint64{} // attempt, by turn
	for _, e := range slices.Backward(page.Items) {
		latest[e.Turn] = max(latest[e.Turn], e.Attempt)
	}
	for i := range page.Items {
		e := &page.Items[i]
		e.Dropped = e.Attempt < latest[e.Turn] && strings.HasSuffix(e.Type, "_delta")
	}
	page.Next = events.Next
	return page, err
}

// continues reports whether the next event goes on with the text of this one.
func (e *Event) continues(next *Event) bool {
	return strings.HasSuffix(e.Type, "_delta") && e.Type == next.Type && e.Turn == next.Turn &&
		e.Attempt == next.Attempt
}

// FollowLive delivers the events that come after a cursor, one by one, as live.Store.Follow does.
func (s *Store) FollowLive(ctx context.Context, id, cursor string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range s.live.Follow(ctx, id, cursor) {
			if !yield(eventOf(e), err) || err != nil {
				return
			}
		}
	}
}

func eventOf(e live.Followed) (event Event) {
	if e.What == db.Written {
		event = Describe(e.Item)
	}
	event.Status, event.Cursor = e.Status, e.Cursor
	return event
}

// Describe returns what an event says, in words.
func Describe(r live.RunEventRecord) (event Event) {
	event.Sequence, event.Type, event.JSON = r.Sequence, r.Event.Type(), r.Event.JSON()
	event.At = time.UnixMilli(int64(r.TimestampMs)).UTC()
	event.Until = event.At
	event.Turn, event.Attempt, _ = r.Event.Turn()
	var members map[string]json.RawMessage
	if json.Unmarshal(event.JSON, &members) != nil {
		return event
	}
	text := func(names ...string) string {
		for _, name := range names {
			var s string
			if raw, ok := members[name]; ok && (json.Unmarshal(raw, &s) == nil || string(raw) != "null") {
				if s == "" && !strings.HasPrefix(string(raw), `"`) {
					s = string(raw)
				}
				if s != "" {
					return s
				}
			}
		}
		return ""
	}
	event.Tool = text("tool_name", "name")
	event.Text = text("delta", "text", "message", "prompt", "output", "result", "question", "args", "input",
		"reason", "summary", "description", "error")
	return event
}
