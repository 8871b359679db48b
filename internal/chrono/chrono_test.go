package chrono_test

import (
	"testing"

	"selvedge/internal/chrono"
)

func TestTimesAreReadAndWrittenAsTheOriginalsDo(t *testing.T) {
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

func TestWhatIsNoTimeIsRefusedWithTheOriginalsReason(t *testing.T) {
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

func TestAnExactTextCountsOnlyWhileItStandsForTheTime(t *testing.T) {
	at, exact, err := chrono.Parse("2026-05-20T11:00:60Z")
	if err != nil {
		t.Fatal(err)
	}
	if got := chrono.Text(at.Add(1), exact); got != "2026-05-20T11:01:00Z" {
		t.Errorf("a moved time is written as %q", got)
	}
}
