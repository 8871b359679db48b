package runs

import (
	"math"
	"time"

	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// parseTime reads a time; see [chrono.Parse].
func parseTime(s string) (t time.Time, exact string, err error) {
	t, exact, err = chrono.Parse(s)
	if err != nil {
		return time.Time{}, "", &serdejson.DecodeError{Reason: err.Error()}
	}
	return t, exact, nil
}

// columnNanos returns t in Unix nanoseconds for an INTEGER column, which holds the years 1678 to
// 2261. Other times are clamped to its ends, so that they keep their place in an order.
func columnNanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	case s <= math.MinInt64/int64(time.Second):
		return math.MinInt64
	}
	return t.UnixNano()
}

// holdsNanos reports whether such a column holds t exactly.
func holdsNanos(t time.Time) bool { return time.Unix(0, columnNanos(t)).Equal(t) }
