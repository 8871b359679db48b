package runs

import (
	"math"
	"testing"
	"time"
)

// Ran: chrono 0.4.45 through car-proto 0.27.0. What Decode makes of the common spellings is in the recorded lines.
func TestTimesAtTheEdgesReadAsInChrono(t *testing.T) {
	for in, want := range map[string]string{
		"2021 - 3- 1T 8 : 0:0\u2003+01 : 30":  "2021-03-01T06:30:00Z",
		"2021-03-01 08:00:00\u22120130":       "2021-03-01T09:30:00Z",
		"-262143-01-01T00:00:00Z":             "-262143-01-01T00:00:00Z",
		"+262142-12-31T23:59:59.9999999999Z":  "+262142-12-31T23:59:59.999999999Z",
		"0000-02-29T00:00:00utc":              "0000-02-29T00:00:00Z",
		"2016-12-31T23:59:60.000000001+05:45": "2016-12-31T18:14:60.000000001Z",
		"+12-01-01T00:00:00Z":                 "0012-01-01T00:00:00Z",
	} {
		at, text, err := parseTime(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := string(timeText(nil, at, text)); got != want {
			t.Errorf("%q gave %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"-262143-01-01T00:00:00+00:01": "no possible date and time matching input",
		"+262142-12-31T23:59:59-00:01": "no possible date and time matching input",
		"-262144-01-01T00:00:00Z":      "input is out of range",
		"1900-02-29T00:00:00Z":         "input is out of range",
		"2021-03-01T08:00:00+24:00":    "input is out of range",
		"2021-03-01T08:00:00+01:60":    "input is out of range",
		"2021-03-01T08:00:00Zx":        "trailing input",
		"2021-03-01T08:00:00+0":        "premature end of input",
		"2021-03-01  08:00:00x":        "input contains invalid characters",
	} {
		if at, _, err := parseTime(in); err == nil || err.Error() != want {
			t.Errorf("%q gave %v, %v; want %s", in, at, err, want)
		}
	}
}

func TestALeapSecondSortsBeforeTheNextMinuteAndKeepsItsSpelling(t *testing.T) {
	leap, text, err := parseTime("2016-12-31T23:59:60.5Z")
	if err != nil {
		t.Fatal(err)
	}
	if next := time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC); !leap.Before(next) || next.Sub(leap) != 1 {
		t.Errorf("leap second is at %v", leap)
	}
	if got := string(timeText(nil, leap, text)); got != "2016-12-31T23:59:60.500Z" {
		t.Errorf("written as %s", got)
	}
	if got := string(timeText(nil, leap.Add(time.Hour), text)); got != "2017-01-01T00:59:59.999999999Z" {
		t.Errorf("a changed time is written as %s", got)
	}
}

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
