package runs

import (
	"math"
	"testing"
)

func TestASettingsFileIsChangedInItsLimitsAlone(t *testing.T) {
	own := DefaultRetention()
	wanted := RetentionConfig{MaxPerAgent: 7, MaxAgeDays: -1}
	const rest = "# mine\n[server] # a port\nport = 1\n\n"
	for _, c := range []struct{ text, want string }{
		{"", "\n[runs]\nmax_per_agent = 7\nmax_age_days = -1\n"},
		{rest, rest + "\n[runs]\nmax_per_agent = 7\nmax_age_days = -1\n"},
		{"a = 1", "a = 1\n\n[runs]\nmax_per_agent = 7\nmax_age_days = -1\n"},
		{
			rest + "[runs] # how many\nmax_per_agent = 0x10 # a few\n[last]\n",
			rest + "[runs] # how many\nmax_age_days = -1\nmax_per_agent = 7 # a few\n[last]\n",
		},
		{"[runs]", "[runs]\nmax_per_agent = 7\nmax_age_days = -1\n"},
		{
			"\ufeff[ \"runs\" ]\r\n'max_age_days'=3\r\nmax_per_agent\t=\t1_000\r\n",
			"\ufeff[ \"runs\" ]\r\n'max_age_days'=-1\r\nmax_per_agent\t=\t7\r\n",
		},
		{"a = 1\nruns.max_per_agent = 3\n[b]\n", "runs.max_age_days = -1\na = 1\nruns.max_per_agent = 7\n[b]\n"},
		{"runs = {}\n", "runs = { max_per_agent = 7, max_age_days = -1 }\n"},
		{"runs = {max_age_days = 5, other = 2}\n", "runs = { max_per_agent = 7,max_age_days = -1, other = 2}\n"},
		{"[runs.deep]\nx = 1\n", "[runs.deep]\nx = 1\n\n[runs]\nmax_per_agent = 7\nmax_age_days = -1\n"},
		{
			"[b.runs]\nmax_per_agent = 3\n",
			"[b.runs]\nmax_per_agent = 3\n\n[runs]\nmax_per_agent = 7\nmax_age_days = -1\n",
		},
		{
			"x = '''\n[runs]\nmax_per_agent = 3\n'''\n",
			"x = '''\n[runs]\nmax_per_agent = 3\n'''\n\n[runs]\nmax_per_agent = 7\nmax_age_days = -1\n",
		},
	} {
		got, err := withLimits([]byte(c.text), wanted)
		if err != nil || string(got) != c.want {
			t.Errorf("%q became\n%q, %v, want\n%q", c.text, got, err, c.want)
		}
		if said, err := parseRetention(got); err != nil || said != wanted {
			t.Errorf("%q says %+v, %v", got, said, err)
		}
		before, err := parseRetention([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if same, err := withLimits([]byte(c.text), before); err != nil || string(same) != c.text {
			t.Errorf("%q, with the limits that it says, became %q, %v", c.text, same, err)
		}
	}
	largest := RetentionConfig{MaxPerAgent: math.MaxInt64, MaxAgeDays: math.MinInt64}
	if got, err := withLimits([]byte("[runs]\nmax_per_agent = 1\nmax_age_days = 1\n"), largest); err != nil ||
		string(got) != "[runs]\nmax_per_agent = 9223372036854775807\nmax_age_days = -9223372036854775808\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, broken := range []string{"[runs", "[runs]\nmax_per_agent = 'x'\n", "\xff"} {
		if got, err := withLimits([]byte(broken), own); err != nil || string(got) != broken {
			t.Errorf("%q, which says the original's own limits, became %q, %v", broken, got, err)
		}
		if got, err := withLimits([]byte(broken), wanted); err == nil {
			t.Errorf("%q became %q", broken, got)
		}
	}
}
