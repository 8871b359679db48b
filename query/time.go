package query

import (
	"strconv"
	"strings"
	"time"
)

// ParseTime reads a time as people write it: how long ago, as 24h, 7d or 1w; a day in UTC, as 2026-05-04,
// today or yesterday; or a time, as 2026-05-04T13:30:00Z. "" is the zero time. db.ErrInvalid: anything
// else.
func ParseTime(text string, now time.Time) (time.Time, error) {
	today := now.UTC().Truncate(24 * time.Hour)
	switch text {
	case "":
		return time.Time{}, nil
	case "today":
		return today, nil
	case "yesterday":
		return today.AddDate(0, 0, -1), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	ago, err := time.ParseDuration(text)
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			var n float64
			n, err = strconv.ParseFloat(number, 64)
			ago = time.Duration(n * float64(length))
		}
	}
	if err != nil || ago < 0 {
		return time.Time{}, invalid("write how long ago, as 24h, 7d or 1w, a day in UTC, as 2026-05-04, today or "+
			"yesterday, or a time, as 2026-05-04T13:30:00Z", "%q is no time", text)
	}
	return now.Add(-ago), nil
}
