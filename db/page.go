package db

import "selvedge/internal/paging"

// MaxLimit is the largest limit of a page. A page also ends at 1 MiB, with one item at least.
const MaxLimit = paging.MaxLimit

// An At selects a part of a list. The zero value is the first page.
type At struct {
	// After is the Next of the previous page; "" is the beginning of the list.
	After string
	// Limit is the largest number of items; a limit of 0 means 50. A negative limit, or one above
	// MaxLimit, is ErrInvalid.
	Limit int
}

// A Page is a part of a list, from one snapshot.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the next page, for At.After; "" if there is none. It stays valid if items
	// are changed or removed: the next page begins where this one ended.
	Next string
}
