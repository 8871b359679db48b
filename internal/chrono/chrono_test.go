package chrono_test

import (
	"testing"
	"time"

	"selvedge/internal/chrono"
)

func TestTimes_ReadAndWrittenLikeOriginal(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"2026-05-20T09:00:00Z", "2026-05-20T09:00:00Z"},
		{"2026-05-20t09:00:00.12z", "2026-05-20T09:00:00.120Z"},
		{"2026-05-20 09:00:00.1234+00:00", "2026-05-20T09:00:00.123400Z"},
		{"2026-05-20T18:00:00.120+09:00", "2026-05-20T09:00:00.120Z"},
		{"2026-05-20T11:00:00.1234567891Z", "2026-05-20T11:00:00.123456789Z"},
		{"2026-05-20T11:00:60Z", "2026-05-20T11:00:60Z"},
		{"2026-05-20T11:00:60.5+01:00", "2026-05-20T10:00:60.500Z"},
		{"+12026-05-20T11:00:00Z", "+12026-05-20T11:00:00Z"},
		{"-0044-03-15T12:00:00Z", "-0044-03-15T12:00:00Z"},
	} {
		at, exact, err := chrono.Parse(c.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.in, err)
		} else if got := chrono.Text(at, exact); got != c.out {
			t.Errorf("%q is written as %q, want %q", c.in, got, c.out)
		}
	}
}

func TestTimes_RefusedWithOriginalReason(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "premature end of input",
		"2026-05-20 11:00":               "premature end of input",
		"2026-05-20T11:00:00":            "premature end of input",
		"2026-13-20T11:00:00Z":           "input is out of range",
		"2026-05-20X11:00:00Z":           "input contains invalid characters",
		"2026-05-20T11:00:00Z and so on": "trailing input",
		"+262143-01-01T00:00:00Z":        "input is out of range",
	} {
		if _, _, err := chrono.Parse(in); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v, want %q", in, err, want)
		}
	}
}

// Ran: chrono 0.4.45 through car-proto 0.27.0. What becomes of the common spellings is in the
// recorded lines of runs.
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
		at, exact, err := chrono.Parse(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := chrono.Text(at, exact); got != want {
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
		"2021-00-x":                    "input is out of range",
		"2021-03-01T08:61":             "input is out of range",
	} {
		if at, _, err := chrono.Parse(in); err == nil || err.Error() != want {
			t.Errorf("%q gave %v, %v; want %s", in, at, err, want)
		}
	}
}

func TestLeapSecond_SortsBeforeNextMinuteKeepsSpelling(t *testing.T) {
	leap, exact, err := chrono.Parse("2016-12-31T23:59:60.5Z")
	if err != nil {
		t.Fatal(err)
	}
	if next := time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC); !leap.Before(next) || next.Sub(leap) != 1 {
		t.Errorf("leap second is at %v", leap)
	}
	if got := chrono.Text(leap, exact); got != "2016-12-31T23:59:60.500Z" {
		t.Errorf("written as %s", got)
	}
	if got := chrono.Text(leap.Add(time.Hour), exact); got != "2017-01-01T00:59:59.999999999Z" {
		t.Errorf("a changed time is written as %s", got)
	}
}
