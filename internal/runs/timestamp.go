package traces

import (
	"math"
	"time"

	"selvedge/internal/chrono"
)

// FormatTime writes t exactly as the original writes its times: in UTC, with 'Z', 0, 3, 6 or 9
// digits of fraction, and years outside 0 to 9999 with a sign. A time.Time has no second 60;
// records that hold one remember it themselves.
func FormatTime(t time.Time) string { return chrono.Format(t) }

// ParseTime reads a time; see [chrono.Parse].
func ParseTime(s string) (t time.Time, exact string, err error) {
	t, exact, err = chrono.Parse(s)
	if err != nil {
		return time.Time{}, "", &DecodeError{Reason: err.Error()}
	}
	return t, exact, nil
}

// ColumnNanos is t in Unix nanoseconds for an INTEGER column, which holds the years 1678 to 2261;
// others are clamped to its ends, so that they keep their place in an order.
func ColumnNanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	case s <= math.MinInt64/int64(time.Second):
		return math.MinInt64
	}
	return t.UnixNano()
}

// HoldsNanos reports whether such a column holds t exactly.
func HoldsNanos(t time.Time) bool { return time.Unix(0, ColumnNanos(t)).Equal(t) }
