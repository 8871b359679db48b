package db

import (
	"time"

	"selvedge/internal/txn"
)

// Nanos is t in Unix nanoseconds, the unit of every time column, clamped to the range of an int64.
// time.Time.UnixNano overflows silently outside that range.
func Nanos(t time.Time) int64 { return txn.Nanos(t) }

// Time is the UTC time of a time column.
func Time(nanos int64) time.Time { return txn.Time(nanos) }
