package legacy

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/maintenance"
	"selvedge/runs"
)

// storedLimits are the limits of runs that a scope has, as the original counts them.
func storedLimits(ctx context.Context, d *db.DB, scope string) (runs.RetentionConfig, bool, error) {
	r, ok, err := stores.RetentionOf(ctx, d, scope, maintenance.StoreRuns)
	if !ok {
		return runs.RetentionConfig{}, ok, err
	}
	days := int64(r.Policy.Age / (24 * time.Hour))
	return runs.RetentionConfig{MaxPerAgent: uint64(r.Policy.Count), MaxAgeDays: days}, ok, err
}

func TestLimitsOfATreeAreStoredAndLeaveAgain(t *testing.T) {
	d := emptyFile(t)
	dir := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	config := func(dir, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stored := func(want runs.RetentionConfig, wantOK bool) {
		t.Helper()
		limits, ok, err := storedLimits(context.Background(), d, "")
		if err != nil || ok != wantOK || limits != want {
			t.Errorf("stored is %+v, %v, %v", limits, ok, err)
		}
	}
	importInto(t, d, "", dir)
	stored(runs.RetentionConfig{}, false)
	config(dir, "[runs]\nmax_per_agent = 7\n")
	importInto(t, d, "", dir)
	stored(runs.RetentionConfig{MaxPerAgent: 7, MaxAgeDays: 30}, true)

	other := folder{"b/r.jsonl": startedLine("b", "r")}.make(t)
	config(other, "[runs]\nmax_per_agent = 9\n")
	importInto(t, d, "", other)
	stored(runs.RetentionConfig{MaxPerAgent: 7, MaxAgeDays: 30}, true)

	out := filepath.Join(t.TempDir(), "out")
	if _, err := Export(context.Background(), d, Runs, out, Options{}); err != nil {
		t.Fatal(err)
	}
	if limits := runs.FromCarDir(out); limits != (runs.RetentionConfig{MaxPerAgent: 7, MaxAgeDays: 30}) {
		t.Errorf("exported are %+v", limits)
	}
	checkModes(t, out)

	config(dir, "[other]\n") // the original goes back to its own limits
	importInto(t, d, "", dir)
	stored(runs.RetentionConfig{}, false)
	if _, ok, err := storedLimits(context.Background(), d, "of nobody"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// Settings of the old program that no store has a use for leave as they came: comments, other
// tables, what can't be understood.
func TestSettingsBesideATreeLeaveAsTheyCame(t *testing.T) {
	ctx := context.Background()
	days := func(value string) string { return "[runs]\nmax_age_days = " + value + "\n" }
	runsOf := func(value string) string { return "[runs]\nmax_per_agent = " + value + "\n" }
	const rest = "# mine\n[server]\nport = 1 # not 80\n\n"
	for _, c := range []struct {
		config  string
		change  *db.Policy // set here, once it was imported
		want    string
		leftOut int
	}{
		{"", nil, "", 0},
		{rest, nil, rest, 0},
		{rest + "[runs]\nmax_per_agent = 7 # few\n", nil, rest + "[runs]\nmax_per_agent = 7 # few\n", 0},
		{
			rest + "[runs]\nmax_per_agent = 7 # few\n", &db.Policy{Count: 9, Age: 24 * time.Hour},
			rest + "[runs]\nmax_age_days = 1\nmax_per_agent = 9 # few\n", 0,
		},
		{"[runs", nil, "[runs", 0},
		{days("106752"), nil, days("106752"), 0}, // more than nanoseconds can say
		{days("999999"), nil, days("999999"), 0},
		{days("9223372036854775807"), nil, days("9223372036854775807"), 0},
		{days("-5"), nil, days("-5"), 0},
		{days("-9223372036854775808"), nil, days("-9223372036854775808"), 0},
		{days("+1_000"), nil, days("+1_000"), 0},
		{runsOf("9223372036854775807"), nil, runsOf("9223372036854775807"), 0},
		{runsOf("0"), nil, runsOf("0"), 0},
		{days("999999"), &db.Policy{Count: 50, Age: 24 * time.Hour}, days("1"), 0},
		{"[runs", &db.Policy{Count: 9, Age: 24 * time.Hour}, "[runs]\nmax_per_agent = 9\nmax_age_days = 1\n", 1},
	} {
		d := emptyFile(t)
		dir := folder{"a/r.jsonl": startedLine("a", "r"), "../config.toml": c.config}.make(t)
		importInto(t, d, "", dir)
		if report := verified(t, d, Runs, dir); !report.Proof.Whole {
			t.Errorf("%q: %s", c.config, report.Proof.Line)
		}
		if c.change != nil {
			if err := maintenance.SetRetention(ctx, d, "", maintenance.StoreRuns, *c.change); err != nil {
				t.Fatal(err)
			}
		}
		out := filepath.Join(t.TempDir(), "out")
		report, err := Export(ctx, d, Runs, out, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(out, "config.toml"))
		if err != nil || string(got) != c.want || len(report.LeftOut) != c.leftOut {
			t.Errorf("%q with %+v became %q, want %q; left out is %v, %v", c.config, c.change, got, c.want,
				report.LeftOut, err)
		}
	}
}

func TestExportSettings_EffectiveOnesWin(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	for _, config := range []string{
		"# one\n", "# two\n[runs]\nmax_per_agent = 7\n",
		"# two\n[runs]\nmax_per_agent = 7\n",
	} {
		importInto(t, d, "", folder{"a/r.jsonl": startedLine("a", "r"), "../config.toml": config}.make(t))
	}
	out := filepath.Join(t.TempDir(), "out")
	report, err := Export(ctx, d, Runs, out, Options{})
	got, unread := os.ReadFile(filepath.Join(out, "config.toml"))
	if err != nil || unread != nil || string(got) != "# two\n[runs]\nmax_per_agent = 7\n" ||
		len(report.LeftOut) != 1 {
		t.Errorf("%q, %v, left out is %v, %v", got, unread, report.LeftOut, err)
	}
}

func TestExport_LimitsRoundedUpAreNamed(t *testing.T) {
	for _, c := range []struct {
		policy  db.Policy
		want    runs.RetentionConfig
		leftOut int
	}{
		{db.Policy{Age: 12 * time.Hour}, runs.RetentionConfig{MaxPerAgent: math.MaxInt64, MaxAgeDays: 1}, 1},
		{db.Policy{Age: 36 * time.Hour, Count: 3}, runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: 2}, 1},
		{db.Policy{Age: 48 * time.Hour, Count: 3}, runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: 2}, 0},
		{
			db.Policy{Age: math.MaxInt64, Count: 3},
			runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: math.MaxInt64/(24*int64(time.Hour)) + 1},
			1,
		},
		{db.Policy{Age: db.KeepNone, Count: db.KeepNone}, runs.RetentionConfig{}, 0},
		{
			db.Policy{Count: 3, Age: 24 * time.Hour, Bytes: 1 << 20},
			runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: 1},
			1,
		},
	} {
		d := emptyFile(t)
		err := maintenance.SetRetention(context.Background(), d, "", maintenance.StoreRuns, c.policy)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		report, err := Export(context.Background(), d, Runs, out, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if limits := runs.FromCarDir(out); limits != c.want || len(report.LeftOut) != c.leftOut {
			t.Errorf("%+v leaves as %+v, left out is %v", c.policy, limits, report.LeftOut)
		}
	}
}

func TestImport_FileSizeNearsTreeSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "typical.db")
	d, err := db.Open(context.Background(), path, db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		t.Fatal(err)
	}
	report := importInto(t, d, "", typicalTree(t))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	ratio := float64(info.Size()) / float64(report.Files.Bytes)
	t.Logf("%.2f bytes of file for a byte of the tree", ratio)
	if ratio > 1.35 {
		t.Errorf("%d bytes of tree take %d bytes", report.Files.Bytes, info.Size())
	}
}

func TestImport_SameLimitsKeepTheirTime(t *testing.T) {
	dir := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	folder{"config.toml": "[runs]\nmax_per_agent = 7\n"}.below(t, dir)
	d, clock := fileAt(t)
	importInto(t, d, "", dir)
	before := dump(t, d)
	clock.Advance(time.Hour)
	importInto(t, d, "", dir)
	if diff := firstDifference(before, dump(t, d)); diff != "" {
		t.Errorf("the second import changed the file: %s", diff)
	}
	folder{"config.toml": "[runs]\nmax_per_agent = 8\n"}.below(t, dir)
	importInto(t, d, "", dir)
	set, ok, err := stores.RetentionOf(context.Background(), d, "", maintenance.StoreRuns)
	if err != nil || !ok || set.Policy.Count != 8 || !set.SetAt.Equal(clock.Now()) {
		t.Errorf("%+v, %v, %v", set, ok, err)
	}
}
