package txn

import (
	"math"
	"time"

	"selvedge/internal/engine"
)

// The range of a time in a table, an int64 of Unix nanoseconds: 1677-09-21 to 2262-04-11.
var (
	minTime = time.Unix(0, math.MinInt64)
	maxTime = time.Unix(0, math.MaxInt64)
)

// Nanos is t in Unix nanoseconds, the unit of every time column, clamped to the range of an int64.
// time.Time.UnixNano overflows silently outside that range.
func Nanos(t time.Time) int64 {
	switch {
	case t.Before(minTime):
		return math.MinInt64
	case t.After(maxTime):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Time is the UTC time of a time column.
func Time(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }

// Checksum is the CRC-32C of the values of a row's columns, each with its type and, if it has one,
// its length, so that no byte can move from one column to the next unnoticed. Values are as they
// come out of a table: nil, int64, float64, string, []byte; a pointer counts as its target, and an
// int or a bool as the integer that is stored. Trailing NULLs don't count, so that a row stays
// valid when its table gets another column. migrations.Checksums lists the columns that each
// table's checksum covers.
func Checksum(values ...any) int64 { return engine.Checksum(values...) }

// Arg is the value at p as an argument of a statement, NULL for nil. For the pointer itself a driver
// would use reflection.
func Arg[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// Blob is b as an argument, NULL for nil.
func Blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
