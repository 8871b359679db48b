package runs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"selvedge/runs"
)

func TestConfigTomlRules(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "50 30",
		"[runs]\nmax_per_agent = 10\n": "10 30",
		"[runs]\nmax_age_days = -5\nmax_per_agent = 0\n":                "0 -5",
		"runs = { max_age_days = 9 }":                                   "50 9",
		"runs.max_per_agent = 0x10\nruns.max_age_days = 1_000":          "16 1000",
		"\ufeff[runs]\r\nmax_per_agent = 10\r\n":                        "10 30",
		"[runs]\nmax_per_agent = 9223372036854775807":                   "9223372036854775807 30",
		"[runs]\nmax_per_agent = 9223372036854775808\nmax_age_days = 1": "50 30",
		"[runs]\nmax_per_agent = -1\nmax_age_days = 1":                  "50 30",
		"[runs]\nmax_per_agent = 10.0\nmax_age_days = 1":                "50 30",
		"[runs]\nmax_per_agent = \"10\"\nmax_age_days = 1":              "50 30",
		"[Runs]\nmax_per_agent = 10\n":                                  "50 30",
		"[runs]\nMax_Per_Agent = 10\n":                                  "50 30",
		"[[runs]]\nmax_per_agent = 10\n":                                "50 30",
		"[runs]\nmax_per_agent = 10\n[runs]\n":                          "50 30",
		"[runs]\nmax_per_agent = 10\n[other]\nx =":                      "50 30",
		"[runs]\nmax_per_agent = 10\n[other]\nx = 99999999999999999999": "50 30",
		"[runs]\nmax_per_agent = 10\n#\xff\n":                           "50 30",
		"runs = 3":                                                      "50 30",
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600))
		limits := runs.FromCarDir(dir)
		if got := fmt.Sprint(limits.MaxPerAgent, limits.MaxAgeDays); got != want {
			t.Errorf("%q gives %s, not %s", text, got, want)
		}
	}
}

func TestRootOfAJournalDir(t *testing.T) {
	_, d := openStore(t, runs.Options{})
	for journals, want := range map[string]string{
		"/home/u/.car/journals": "/home/u/.car/runs", "/home/u/.car/journals/": "/home/u/.car/runs",
		"journals": "runs", ".": "runs",
		"/": "./runs", "": "./runs", "a/b/..": "a/b/runs", "a//b": "a/runs", "a/./b/.": "a/runs",
		"/journals": "/runs", "./a": "./runs",
	} {
		if got := runs.FromJournalDir(d, journals, runs.Options{}).Root(); got != want {
			t.Errorf("%q leads to %q, not %q", journals, got, want)
		}
	}
}

func TestFromJournalDirReadsTheLimitsBesideIt(t *testing.T) {
	_, d := openStore(t, runs.Options{})
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte("[runs]\nmax_per_agent = 7\n"), 0o600))
	s := runs.FromJournalDir(d, filepath.Join(dir, "journals"), runs.Options{Scope: "home"})
	if got := s.Retention(); got != (runs.RetentionConfig{MaxPerAgent: 7, MaxAgeDays: 30}) ||
		s.Scope() != "home" {
		t.Errorf("the store keeps %+v in scope %q", got, s.Scope())
	}
	own := runs.RetentionConfig{MaxPerAgent: 1, MaxAgeDays: 2}
	s = runs.FromJournalDir(d, filepath.Join(dir, "journals"), runs.Options{Retention: &own, Root: "elsewhere"})
	if s.Retention() != own || s.Root() != "elsewhere" {
		t.Errorf("the store keeps %+v of %q", s.Retention(), s.Root())
	}
}

func TestAConfigThatIsNoFileGivesTheDefaults(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "config.toml"), 0o600))
	if got := runs.FromCarDir(dir); got != runs.DefaultRetention() {
		t.Errorf("a pipe gave %+v", got)
	}
}
