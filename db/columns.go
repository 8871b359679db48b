package db

import (
	"time"

	"selvedge/internal/txn"
)

// Nanos returns t in Unix nanoseconds, the unit of every time column, clamped to the range of an
// int64. time.Time.UnixNano overflows silently outside that range.
func Nanos(t time.Time) int64 { return txn.Nanos(t) }

// Time returns the UTC time of a time column.
func Time(nanos int64) time.Time { return txn.Time(nanos) }
