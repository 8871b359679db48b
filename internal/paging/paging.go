// Package paging builds the pages of a list: their room, their items, and the parts of a statement
// that every list has.
package paging

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"selvedge/internal/engine"
	"selvedge/internal/txn"
)

// The limits of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
	MaxBytes     = 1 << 20 // a page holds at most so many bytes, or one item
)

const (
	// NoLimit is the limit of a statement that returns all rows: more than fit into memory.
	NoLimit = math.MaxInt32
	// BoundLimit is the limit of a statement as a parameter. SQLite plans by the value of a bare "?",
	// and so prepares the statement again for each value; it does not look into a cast. PostgreSQL
	// infers a small integer type unless told otherwise.
	BoundLimit = `CAST(? AS BIGINT)`
)

// Same is the condition that a column which may hold more than [txn.MaxID] bytes equals mark: another
// column, or a parameter such as ?2; a bare ? stands there three times. PostgreSQL can't index a
// long text, so its indexes hold the prefix.
func Same(column, mark string) string {
	return column + " = " + mark + " AND " + Start(column) + " = " + Start(mark)
}

// Start is the prefix of a text that PostgreSQL indexes. It keeps the order of the texts. SQLite's
// substr of zero bytes is NULL.
func Start(column string) string { return engine.Start(column) }

// RoomFor returns the room of a page of at most limit items, 0 for DefaultLimit, or ErrInvalid for a
// limit out of range.
func RoomFor(limit int) (Room, error) {
	if limit < 0 || limit > MaxLimit {
		return Room{}, txn.Invalid(fmt.Sprintf("ask for 1 to %d, or 0 for %d", MaxLimit, DefaultLimit),
			"the limit of a page is %d", limit)
	}
	if limit == 0 {
		limit = DefaultLimit
	}
	return RoomOf(limit), nil
}

// RoomOf returns the room of a page of that many items.
func RoomOf(items int) Room { return Room{Items: items, bytes: MaxBytes} }

// A Room is the room that is left on a page.
type Room struct {
	Items int // how many more items there is room for
	bytes int
	taken bool
}

// Take reports whether another item of that many bytes fits, and takes it. The first item always
// fits.
func (r *Room) Take(bytes int) bool {
	if r.Items == 0 || r.taken && bytes > r.bytes {
		return false
	}
	r.Items--
	r.bytes -= bytes
	r.taken = true
	return true
}

// Fill takes items until the page is full, and reads at most one item more. weigh returns about how
// many bytes an item takes; cursor returns the cursor behind one. next is "" at the end of the list.
func Fill[T any](room Room, items iter.Seq2[T, error], weigh func(*T) int, cursor func(*T) string,
) (page []T, next string, err error) {
	for item, err := range items {
		if err != nil {
			return nil, "", err
		}
		page = append(page, item)
		if last := len(page) - 1; !room.Take(weigh(&page[last])) {
			page = page[:last]
			return page, cursor(&page[last-1]), nil
		}
	}
	return page, "", nil
}

// All iterates over the items of all pages. No transaction is open while the caller's loop runs. An
// error ends the iteration.
//
// Each page is a snapshot of its own. An item that keeps its place in the order comes once; one
// that is added, removed or moved meanwhile may be missed, and one that moves may come twice.
func All[
	T any,
	At ~struct {
		After string
		Limit int
	},
	Page ~struct {
		Items []T
		Next  string
	},
](page func(At) (Page, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := ""; ; {
			got, err := page(At{After: after, Limit: 200})
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			items := struct {
				Items []T
				Next  string
			}(got)
			for _, item := range items.Items {
				if !yield(item, nil) {
					return
				}
			}
			if after = items.Next; after == "" {
				return
			}
		}
	}
}

// AfterPrefix returns the upper bound of the ids that begin with prefix, compared byte by byte:
// they are in the range from prefix to before the bound.
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

// behindAll is greater than any id.
var behindAll = strings.Repeat(string(utf8.MaxRune), txn.MaxID/utf8.UTFMax+1)
