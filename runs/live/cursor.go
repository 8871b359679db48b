package live

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"selvedge/db"
	"selvedge/internal/live"
)

// A place is where a reader of a run's events stands: which run, and the id behind the last event that it has. It never
// repeats and never skips, whatever the sequences say.
type place struct {
	run  int64 // key; 0: the reader has not begun
	next int64 // lower half of the id
}

// A FollowedEvent is an event of a run with the cursor behind it.
type FollowedEvent struct {
	RunID string
	RunEventRecord
	Cursor string
}

// cursor is opaque to callers: they keep it, and give it back.
func (p place) cursor() string {
	raw := binary.AppendUvarint(binary.AppendUvarint([]byte{'e'}, uint64(p.run)), uint64(p.next))
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseCursor(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	bad := fmt.Errorf("%w: %q is no cursor of a live run", db.ErrInvalid, text)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < 3 || raw[0] != 'e' {
		return p, bad
	}
	run, n := binary.Uvarint(raw[1:])
	if n <= 0 {
		return p, bad
	}
	next, m := binary.Uvarint(raw[1+n:])
	if m <= 0 || 1+n+m != len(raw) || run == 0 || run > 1<<31 || next > maxPlace+1 {
		return p, bad
	}
	return place{run: int64(run), next: int64(next)}, nil
}

// eventsBehind gives the next events and moves the place on.
func (s *Store) eventsBehind(ctx context.Context, runID string, at *place, limit int) (events []FollowedEvent, found bool, err error) {
	var next place
	err = s.read(ctx, "read live events", runID, func(rx *db.Rx, scope int64) error {
		next, events = *at, nil
		row, ok, err := live.FindRow(rx, scope, runID)
		found = ok
		if err != nil {
			return err
		}
		if at.run != 0 && (!ok || row.Key != at.run) {
			return errExpired("the run was removed or replaced")
		}
		if !ok {
			return nil
		}
		if at.run != 0 && at.next < row.FirstPlace {
			return errExpired("events that come next were removed by a cap")
		}
		rows, err := row.EventRows(rx, next.next, int64(limit))
		if err != nil {
			return err
		}
		next.run = row.Key
		for i := range rows {
			record, err := rows[i].Record()
			if err != nil {
				return err
			}
			next.next = rows[i].Place() + 1
			events = append(events, FollowedEvent{RunID: runID, RunEventRecord: eventRecordOf(record), Cursor: next.cursor()})
		}
		return nil
	})
	if err == nil && found {
		*at = next
	}
	return events, found && err == nil, err
}

const maxPlace = 1<<32 - 1 // of an event

func errExpired(why string) error { return fmt.Errorf("%w: %s", db.ErrCursorExpired, why) }
