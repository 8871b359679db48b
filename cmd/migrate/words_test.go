package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/legacy"
)

func TestSinceIsATimeOrHowLongAgo(t *testing.T) {
	now := time.Date(2026, 5, 8, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                          {},
		"24h":                       now.Add(-24 * time.Hour),
		"7d":                        now.AddDate(0, 0, -7),
		"1.5d":                      now.Add(-36 * time.Hour),
		"1w":                        now.AddDate(0, 0, -7),
		"today":                     time.Date(2026, 5, 8, 0, 0, 0, 0, time.UTC),
		"yesterday":                 time.Date(2026, 5, 7, 0, 0, 0, 0, time.UTC),
		"2026-05-04":                time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC),
		"90m":                       now.Add(-90 * time.Minute),
		"2026-05-04T13:30:00.5Z":    time.Date(2026, 5, 4, 13, 30, 0, 5e8, time.UTC),
		"2026-05-04T13:30:00+02:00": time.Date(2026, 5, 4, 11, 30, 0, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"d", "1", "-1h", "-1d", "NaNd", "1e300d", "w", "2026-02-30", "1h30"} {
		if got, err := parseSince(text, now); classify(err) != kindUsage {
			t.Errorf("%q: %v, %v; want an error of usage", text, got, err)
		}
	}
}

func TestFind_ExactIDBeatsPrefix(t *testing.T) {
	list := func(ids ...string) (c []candidate) {
		for i, id := range ids {
			c = append(c, candidate{id: id, name: fmt.Sprintf("%s of %d", id, i), item: thing{id: fmt.Sprint(i)}})
		}
		return c
	}
	a := &app{args: []string{"runs", "show", "run"}}
	for _, c := range []struct {
		candidates []candidate
		want       string
	}{
		{list("run"), "0"},
		{list("run", "run-1", "run-2"), "0"},
		{list("run-1"), "0"},
	} {
		if got, err := unique(runNoun, "run", c.candidates); err != nil || got.id != c.want {
			t.Errorf("%v: %q, %v; want %q", c.candidates, got.id, err, c.want)
		}
	}
	_, err := unique(runNoun, "run", list())
	if !errors.Is(err, db.ErrNotFound) || classify(err) != kindNotFound {
		t.Errorf("none: %v", err)
	}
	for _, ids := range [][]string{
		{"run", "run"},
		{"run-1", "run-2"},
		strings.Split(strings.Repeat("run ", 11), " ")[:11],
	} {
		_, err := unique(runNoun, "run", list(ids...))
		if classify(err) != kindUsage || !strings.Contains(a.meantHint("run", ambiguous(err)),
			"\nmigrate runs show "+ids[0]+" of 0\nmigrate runs show "+ids[1]+" of 1") {
			t.Errorf("%v: %v", ids, err)
		}
	}
}

// ambiguous is as what a word is to be written, by an error that names several.
func ambiguous(err error) []string {
	f, _ := errors.AsType[*fault](err)
	return f.meant
}

func TestTextsCantMoveTheCursor(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ünïcode 写作": "plain, ünïcode 写作",
		"a\nb\tc\rd":        `a\nb\tc\rd`,
		"\x1b[31m":          `\u001b[31m`,
		"\u009b31m":         `\u009b31m`,
		"bad \xff byte":     `bad \xff byte`,
		"\u202eright":       `\u202eright`,
		"\u2028":            `\u2028`,
		"\x00":              `\u0000`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestAWordIsQuotedWhereAShellWouldReadIt(t *testing.T) {
	for word, want := range map[string]string{
		"selvedge.db": "selvedge.db", "name:repo-triage": "name:repo-triage", "": "''", "a b": "'a b'",
		"it's": `"it's"`, "it's $x": `'it'\''s $x'`, "--limit=3": "--limit=3", "=x": "'=x'", "$x": "'$x'",
		"-": "-",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func TestReportsOfSeveralKindsAddUp(t *testing.T) {
	remark := []legacy.Remark{{File: "f", Reason: "r"}}
	one := legacy.Report{
		Source: "/home/u", Kind: "runs", Counts: map[string]legacy.Count{"turn": {
			Read: 3, New: 1, Already: 1,
			Quarantined: 1,
		}},
		Files: legacy.Files{Found: 1, New: 1, Bytes: 10}, Quarantined: []legacy.Quarantined{{ID: 1}},
		Ignored: remark,
	}
	two := legacy.Report{
		Source: "/home/u", Kind: "agents", Counts: map[string]legacy.Count{
			"turn":  {Read: 1, Changed: 1},
			"entry": {Read: 2, New: 2},
		},
		Files: legacy.Files{Found: 2, Grown: 1, Bytes: 5}, Differs: remark, Truncated: 4,
	}
	got := legacy.Sum("/home/u", []legacy.Report{one, two})
	if got.Kind != autoKind || got.Source != "/home/u" ||
		got.Counts["turn"] != (legacy.Count{Read: 4, New: 1, Already: 1, Changed: 1, Quarantined: 1}) ||
		got.Counts["entry"].New != 2 || got.Files != (legacy.Files{Found: 3, New: 1, Grown: 1, Bytes: 15}) ||
		len(got.Quarantined) != 1 || len(got.Differs) != 1 || len(got.Ignored) != 1 || len(got.LeftOut) != 0 ||
		got.Truncated != 4 {
		t.Errorf("%+v", got)
	}
	if one.Counts["turn"].Read != 3 {
		t.Error("adding up changed a part")
	}
}

// What was done before the connection was lost stays done, and the hints of db are for programs.
func TestImport_LostServerIsRunAgain(t *testing.T) {
	a := &app{path: "postgres://ann@db.example/agents"}
	answer := treeAnswer{Report: legacy.Report{Counts: map[string]legacy.Count{"turn": {Read: 7}}}}
	for _, lost := range []error{db.ErrIO, db.ErrOutcomeUnknown} {
		if hint := hintOf(a.stopped(answer, &db.Error{
			Op: "write", Hint: "nothing was changed",
			Err: lost,
		})); hint != "see that the server runs; 7 records done; run it again to go on" {
			t.Errorf("%v: %s", lost, hint)
		}
	}
}
