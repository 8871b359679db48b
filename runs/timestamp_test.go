package runs

import (
	"math"
	"testing"
	"time"
)

func TestColumnNanosClampsWhatInt64CannotHold(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want int64
	}{
		{time.Date(1970, 1, 1, 0, 0, 0, 7, time.UTC), 7},
		{time.Date(1960, 1, 1, 0, 0, 0, 1, time.UTC), -315619199999999999},
		{time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{time.Date(262142, 12, 31, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{time.Date(1677, 9, 21, 0, 0, 0, 0, time.UTC), math.MinInt64},
		{time.Time{}, math.MinInt64},
	} {
		if got := columnNanos(c.at); got != c.want {
			t.Errorf("%v: %d, want %d", c.at, got, c.want)
		}
	}
}
