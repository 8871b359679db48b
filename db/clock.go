package db

import (
	"math"
	"time"
)

// The range of a time in a table: what an int64 of Unix nanoseconds holds, 1677-09-21 to 2262-04-11.
var (
	minTime = time.Unix(0, math.MinInt64)
	maxTime = time.Unix(0, math.MaxInt64)
)

// Nanos is t as Unix nanoseconds, the unit of every time column, clamped to what an int64 holds: time.Time.UnixNano
// wraps around outside that range without a word.
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
