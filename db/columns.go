package db

import (
	"math"
	"time"

	"selvedge/db/internal/engine"
)

// The range of a time in a table: what an int64 of Unix nanoseconds holds, 1677-09-21 to 2262-04-11.
var (
	minTime = time.Unix(0, math.MinInt64)
	maxTime = time.Unix(0, math.MaxInt64)
)

// Nanos is t as Unix nanoseconds, the unit of every time column, clamped to what an int64 holds:
// time.Time.UnixNano wraps around outside that range without a word.
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

// Checksum is the CRC-32C of the values of a row's columns, each with its type and, where it has
// one, its length, so that nothing can move from one column to the next unnoticed. The values are
// as they come out of a table: nil, int64, float64, string, []byte; a pointer counts as what it
// points at; an int, or a bool, counts as the integer that it is kept as. NULLs at the end don't
// count, so that a row stays right when its table gets another column. Which columns a table's
// checksums cover is said in migrations.Checksums.
func Checksum(values ...any) int64 { return engine.Checksum(values...) }
