package db

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"selvedge/db/internal/engine"
)

const (
	// DefaultLimit is the number of items of a page whose At names no limit.
	DefaultLimit = 50
	// MaxLimit is the largest limit of a page.
	MaxLimit = 1000
	// MaxPageBytes is where a page ends that has not reached its limit: it holds no more bytes, or one item.
	MaxPageBytes = 1 << 20
)

const (
	// NoLimit is the limit of a statement that gives all rows: more than fit into memory.
	NoLimit = math.MaxInt32
	// BoundLimit is where a statement has its limit as a parameter. Where it is a bare "?", SQLite
	// looks at its value to plan the statement, and so prepares it anew each time that it is bound; it
	// does not look into a cast. PostgreSQL takes what stands beside small numbers for a small one,
	// unless it is told.
	BoundLimit = `CAST(? AS BIGINT)`
)

// Same is the condition of a statement that a column which may hold more than [MaxID] bytes is what
// mark says: another column, or a parameter such as ?2; a bare ? stands there three times. No index
// of PostgreSQL takes a long text, so its indexes have the beginning.
func Same(column, mark string) string {
	return column + " = " + mark + " AND " + Start(column) + " = " + Start(mark)
}

// Start is the beginning of a text that an index of PostgreSQL has in place of it. It keeps the
// order: what comes behind a text begins with what that begins with, or with what comes behind.
// SQLite takes the beginning of no bytes for NULL.
func Start(column string) string { return engine.Start(column) }

// InOrder is what a statement orders by that is to give rows in the order of such a column: by its
// beginning first, where that is what the indexes have.
func (rx *Rx) InOrder(column string) string { return rx.engine.InOrder(column) }

// An At says which part of a list is wanted. The zero value is the first page.
type At struct {
	// After is the Next of the page before; "" is the beginning of the list.
	After string
	// Limit is the largest number of items; 0 means DefaultLimit, and less, or more than MaxLimit, is
	// ErrInvalid.
	Limit int
}

// A Page is a part of a list, from one snapshot.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the page behind this one, for At.After; "" when there is none. It stays
	// good whatever becomes of the items: the next page begins behind where this one ended.
	Next string
}

// Room gives the room of a page. ErrInvalid: the limit is none.
func (at At) Room() (Room, error) {
	limit := at.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if limit < 0 || limit > MaxLimit {
		return Room{}, &Error{
			Op: "read page", Hint: fmt.Sprintf("ask for 1 to %d, or 0 for %d", MaxLimit, DefaultLimit),
			Err: fmt.Errorf("%w: the limit of a page is %d", ErrInvalid, at.Limit),
		}
	}
	return Room{Items: limit, bytes: MaxPageBytes}, nil
}

// A Room is what is left on a page.
type Room struct {
	Items int // how many more items there is room for
	bytes int
	taken bool
}

// Take reports whether one more item, of so many bytes, has room, and takes it. The first one always has.
func (r *Room) Take(bytes int) bool {
	if r.Items == 0 || r.taken && bytes > r.bytes {
		return false
	}
	r.Items--
	r.bytes -= bytes
	r.taken = true
	return true
}

// FillPage takes items until the page is full, and looks no further than at the one behind the
// last. weigh says how many bytes an item takes, about; next gives the cursor behind one.
func FillPage[T any](room Room, items iter.Seq2[T, error], weigh func(*T) int,
	next func(*T) string) (page Page[T], err error) {
	for item, err := range items {
		if err != nil {
			return Page[T]{}, err
		}
		if !room.Take(weigh(&item)) {
			page.Next = next(&page.Items[len(page.Items)-1])
			break
		}
		page.Items = append(page.Items, item)
	}
	return page, nil
}

// AllPages gives the items of all pages one by one: no transaction is open while the caller's loop
// runs. After an error there is nothing more.
//
// Each page is a snapshot of its own. An item that keeps its place in the order meanwhile comes
// once; one that comes, goes or moves may be missed, and one that moves may come twice.
func AllPages[T any](page func(At) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := (At{Limit: 200}); ; {
			got, err := page(at)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range got.Items {
				if !yield(item, nil) {
					return
				}
			}
			if at.After = got.Next; at.After == "" {
				return
			}
		}
	}
}

// AfterPrefix gives a text behind all ids that begin with prefix, and before all others behind it,
// compared byte by byte, so that finding them is a range: from prefix on, before that.
func AfterPrefix(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue
		case last+1 == 0xD800: // no text has a surrogate
			last = 0xE000 - 1
		}
		return prefix + string(last+1)
	}
	return behindAll
}

// behindAll is longer than an id can be, of the greatest rune.
var behindAll = strings.Repeat(string(utf8.MaxRune), MaxID/utf8.UTFMax+1)
