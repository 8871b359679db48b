package runs

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"selvedge/db"
)

// A cursor is opaque to callers: base64 of a letter for its kind and what the next page starts behind.

const (
	listCursor  = 'l'
	traceCursor = 't'
)

var cursorText = base64.RawURLEncoding

// listPlace is where a page of a list ended: newest first, then by run, then by agent. The run need not be there any more.
type listPlace struct {
	startedAt int64
	ref       RunRef
}

func (p listPlace) cursor() string {
	out := []byte{listCursor}
	out = binary.BigEndian.AppendUint64(out, uint64(p.startedAt))
	out = binary.AppendUvarint(out, uint64(len(p.ref.RunID)))
	return cursorText.EncodeToString(append(append(out, p.ref.RunID...), p.ref.AgentID...))
}

func parseListCursor(cursor string) (p listPlace, err error) {
	in, err := cursorText.DecodeString(cursor)
	if err != nil || len(in) < 10 || in[0] != listCursor {
		return p, badCursor(cursor)
	}
	p.startedAt = int64(binary.BigEndian.Uint64(in[1:]))
	size, n := binary.Uvarint(in[9:])
	if n <= 0 || size > uint64(len(in)-9-n) {
		return p, badCursor(cursor)
	}
	rest := in[9+n:]
	p.ref = RunRef{RunID: string(rest[:size]), AgentID: string(rest[size:])}
	return p, nil
}

// tracePlace is a line of a trace. Keys of runs are never used again, so it can't point into another run.
type tracePlace struct {
	key, sequence int64
}

func (p tracePlace) cursor() string {
	out := binary.AppendUvarint([]byte{traceCursor}, uint64(p.key))
	return cursorText.EncodeToString(binary.AppendUvarint(out, uint64(p.sequence)))
}

func parseTraceCursor(cursor string) (p tracePlace, err error) {
	in, err := cursorText.DecodeString(cursor)
	if err != nil || len(in) < 3 || in[0] != traceCursor {
		return p, badCursor(cursor)
	}
	key, n := binary.Uvarint(in[1:])
	if n <= 0 || key == 0 || key >= 1<<39 {
		return p, badCursor(cursor)
	}
	sequence, m := binary.Uvarint(in[1+n:])
	if m <= 0 || 1+n+m != len(in) || sequence > maxSequence {
		return p, badCursor(cursor)
	}
	return tracePlace{key: int64(key), sequence: int64(sequence)}, nil
}

func badCursor(cursor string) error {
	return fmt.Errorf("%w: %q is not a cursor of this list", db.ErrInvalid, cursor)
}

// A Page asks for a part of a list.
type Page struct {
	// After is the Next of the page before; "" asks for the first page.
	After string
	// Limit is the largest number of items; 0 means 50, and more than 1000 is ErrInvalid.
	Limit int
}

const (
	defaultLimit = 50
	maxLimit     = 1000
)

func (p Page) limit() (int, error) {
	switch {
	case p.Limit == 0:
		return defaultLimit, nil
	case p.Limit < 0 || p.Limit > maxLimit:
		return 0, fmt.Errorf("%w: the limit of a page is %d; 1 to %d are possible", db.ErrInvalid, p.Limit, maxLimit)
	}
	return p.Limit, nil
}
