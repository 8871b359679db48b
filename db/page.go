package db

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"selvedge/internal/engine"
)

const (
	// DefaultLimit is the number of items of a page whose At sets no limit.
	DefaultLimit = 50
	// MaxLimit is the largest limit of a page.
	MaxLimit = 1000
	// MaxPageBytes bounds a page: it holds at most so many bytes, or one item.
	MaxPageBytes = 1 << 20
)

const (
	// NoLimit is the limit of a statement that returns all rows: more than fit into memory.
	NoLimit = math.MaxInt32
	// BoundLimit is the limit of a statement as a parameter. SQLite plans by the value of a bare "?",
	// and so prepares the statement again for each value; it does not look into a cast. PostgreSQL
	// infers a small integer type unless told otherwise.
	BoundLimit = `CAST(? AS BIGINT)`
)

// Same is the condition that a column which may hold more than [MaxID] bytes equals mark: another
// column, or a parameter such as ?2; a bare ? stands there three times. PostgreSQL can't index a
// long text, so its indexes hold the prefix.
func Same(column, mark string) string {
	return column + " = " + mark + " AND " + Start(column) + " = " + Start(mark)
}

// Start is the prefix of a text that PostgreSQL indexes. It keeps the order of the texts. SQLite's
// substr of zero bytes is NULL.
func Start(column string) string { return engine.Start(column) }

// InOrder is the ORDER BY expression for such a column: its prefix first, where the indexes hold
// that.
func (rx *Rx) InOrder(column string) string { return rx.engine.InOrder(column) }

// An At selects a part of a list. The zero value is the first page.
type At struct {
	// After is the Next of the previous page; "" is the beginning of the list.
	After string
	// Limit is the largest number of items; 0 means DefaultLimit. A negative limit, or one above
	// MaxLimit, is ErrInvalid.
	Limit int
}

// A Page is a part of a list, from one snapshot.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the next page, for At.After; "" if there is none. It stays valid whatever
	// happens to the items: the next page begins where this one ended.
	Next string
}

// Room returns the room of a page, or ErrInvalid for a limit out of range.
func (at At) Room() (Room, error) {
	limit := at.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if limit < 0 || limit > MaxLimit {
		return Room{}, Invalid(fmt.Sprintf("ask for 1 to %d, or 0 for %d", MaxLimit, DefaultLimit),
			"the limit of a page is %d", at.Limit)
	}
	return Room{Items: limit, bytes: MaxPageBytes}, nil
}

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

// FillPage adds items until the page is full, and reads at most one item more. weigh returns about
// how many bytes an item takes; next returns the cursor behind one.
func FillPage[T any](room Room, items iter.Seq2[T, error], weigh func(*T) int,
	next func(*T) string,
) (page Page[T], err error) {
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

// AllPages iterates over the items of all pages. No transaction is open while the caller's loop
// runs. An error ends the iteration.
//
// Each page is a snapshot of its own. An item that keeps its place in the order comes once; one
// that is added, removed or moved meanwhile may be missed, and one that moves may come twice.
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
var behindAll = strings.Repeat(string(utf8.MaxRune), MaxID/utf8.UTFMax+1)
