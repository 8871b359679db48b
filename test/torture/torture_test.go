package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"selvedge/runs"
)

func TestMain(m *testing.M) {
	scripts = append(scripts, controls...)
	if os.Getenv(childVariable) != "" {
		exit(traced(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// controls are scripts of a product that does not keep its promises: the judge must detect that.
var controls = []script{
	{name: "honest", ops: []op{startOp("run-1")}},
	{name: "acknowledges what it has not done", ops: []op{lying(nil, func(o op) error { return nil })}},
	{name: "refuses what it has done", ops: []op{lying(errors.New("refused"), nil)}},
	{name: "does half", ops: []op{inTwo()}},
	{name: "plain", closed: true, ops: []op{plain("a"), plain("b")}},
}

func lying(answer error, in func(op) error) op {
	o := startOp("run-1")
	do := o.do
	o.do = func(ctx context.Context, s *session) error {
		if in != nil {
			return in(o)
		}
		return errors.Join(do(ctx, s), answer)
	}
	return o
}

// inTwo appends two turns in two transactions and calls them one operation.
func inTwo() op {
	o := turnsOp("run-1", "two", 2, 100)
	o.do = func(ctx context.Context, s *session) error {
		for _, t := range turns("two", 2, 100) {
			if err := traces(s).AppendTurns(ctx, agent, "run-1", []runs.Turn{t}); err != nil {
				return err
			}
		}
		return nil
	}
	return o
}

// plain writes a file and syncs it, and its folder.
func plain(name string) op {
	return op{
		name: name,
		do: func(_ context.Context, s *session) error {
			file, err := os.Create(filepath.Join(s.folder, name))
			if err != nil {
				return err
			}
			_, err = file.WriteString("content")
			folder, errFolder := os.Open(s.folder)
			return errors.Join(err, file.Sync(), file.Close(), errFolder, folder.Sync(), folder.Close())
		},
		look: func(_ context.Context, s *session) (trace, error) {
			text, err := os.ReadFile(filepath.Join(s.folder, name))
			switch {
			case errors.Is(err, os.ErrNotExist):
				return absent, nil
			case string(text) == "content":
				return done, nil
			}
			return trace(text), err
		},
	}
}

func rig(t *testing.T, name string) (*runner, *script) {
	t.Helper()
	sc, err := find(name)
	must(t, err)
	r := &runner{dir: t.TempDir()}
	must(t, r.prepare(t.Context(), sc))
	return r, sc
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheJudgeBelievesAnHonestProcess(t *testing.T) {
	r, sc := rig(t, "honest")
	_, _, problems, err := r.census(&point{script: sc, end: closing})
	must(t, err)
	if len(problems) > 0 {
		t.Error(problems)
	}
}

func TestJudge_NoticesFalseAnswers(t *testing.T) {
	for name, want := range map[string]string{
		"acknowledges what it has not done": `answered "done" and it is absent`,
		"refuses what it has done":          `answered "no" and it is done`,
	} {
		r, sc := rig(t, name)
		_, _, problems, err := r.census(&point{script: sc, end: closing})
		must(t, err)
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, want) }) {
			t.Errorf("%s: the problems are %q, none with %q", name, problems, want)
		}
	}
}

func TestTheJudgeNoticesWhatAKillLeavesHalfDone(t *testing.T) {
	r, sc := rig(t, "does half")
	e, _, _, err := r.census(&point{script: sc, end: closing})
	must(t, err)
	failed := 0
	for i, call := range e.calls {
		if call.class.changes() {
			_, problems, err := r.try(&point{script: sc, at: i + 1, fault: kill, times: 1})
			must(t, err)
			failed += len(problems)
		}
	}
	if failed == 0 {
		t.Error("an operation in two transactions passed for one at every kill")
	}
}

// TestTheJudgeNoticesALostWrite has a commit's frames written nowhere, and the process told that they were.
func TestTheJudgeNoticesALostWrite(t *testing.T) {
	r, sc := rig(t, "runs")
	e, _, _, err := r.census(&point{script: sc, end: closing})
	must(t, err)
	at := slices.IndexFunc(e.calls, func(c call) bool {
		return c.class == writes &&
			strings.HasSuffix(c.path, "-wal") && c.size > 512
	})
	e, problems, err := r.try(&point{script: sc, at: at + 1, fault: lost, times: 1, end: dying})
	must(t, err)
	if e.hit == nil || len(problems) == 0 {
		t.Errorf("a lost write of %+v went unnoticed", e.hit)
	}
}

// TestTheJudgeNoticesADiskThatLies cuts the power of a disk whose syncs keep nothing.
func TestTheJudgeNoticesADiskThatLies(t *testing.T) {
	r, sc := rig(t, "runs")
	p := point{script: sc, end: closing}
	_, rec, _, err := r.census(&p)
	must(t, err)
	honest, liars := 0, 0
	for at := rec.armed(); at < len(rec.events); at += 7 {
		for draw := range uint64(2) {
			for _, lies := range []bool{false, true} {
				p.cut = &cut{at: at, draw: draw, liars: lies}
				problems, err := r.powerCut(&p, rec)
				must(t, err)
				if len(problems) > 0 && lies {
					liars++
				} else if len(problems) > 0 {
					honest++
					t.Error(&p, problems)
				}
			}
		}
	}
	if liars == 0 {
		t.Error("a disk that keeps nothing passed for one that does")
	}
}

func TestObserve_EachCallOnceInOrder(t *testing.T) {
	r, sc := rig(t, "plain")
	e, rec, _, err := r.census(&point{script: sc, end: closing})
	must(t, err)
	var names []string
	for _, c := range e.calls {
		names = append(names, c.name+" "+filepath.Base(c.path)[:1])
	}
	one := func(name string) []string {
		return []string{
			"openat " + name, "write " + name, "openat p", "fsync " + name, "close " + name, "fsync p",
			"close p",
		}
	}
	var changes []string
	for _, n := range names {
		if slices.Contains(append(one("a"), one("b")...), n) {
			changes = append(changes, n)
		}
	}
	if want := slices.Concat(one("a"), one("b")); !slices.Equal(changes, want) {
		t.Errorf("the calls are %q, want %q", changes, want)
	}
	if rec.armed() < 0 || len(e.calls) == 0 {
		t.Error("the process was never armed")
	}
}

func TestAFaultIsWhatTheProcessIsTold(t *testing.T) {
	r, sc := rig(t, "plain")
	e, _, _, err := r.census(&point{script: sc, end: closing})
	must(t, err)
	at := slices.IndexFunc(e.calls, func(c call) bool { return c.class == syncs })
	e, _, err = r.try(&point{script: sc, at: at + 1, fault: fault{"EIO", syscall.EIO}, times: 1, end: closing})
	must(t, err)
	if e.story.answers[0] != refused || e.story.answers[1] != finished ||
		!strings.Contains(e.story.errors[0], "input/output error") {
		t.Errorf("the process says %q %q", e.story.answers, e.story.errors)
	}
}

func TestShortWritesWriteHalf(t *testing.T) {
	r, sc := rig(t, "plain")
	e, _, _, err := r.census(&point{script: sc, end: closing})
	must(t, err)
	at := slices.IndexFunc(e.calls, func(c call) bool { return c.class == writes })
	e, _, err = r.try(&point{script: sc, at: at + 1, fault: short, times: 1, end: closing})
	must(t, err)
	// Go's own loop writes the rest: another call.
	if e.story.answers[0] != finished || e.hit == nil || len(e.calls) == 0 {
		t.Errorf("the process says %q", e.story.answers)
	}
}

// SQLite syncs the folder of a new WAL once, and doesn't look at the result. Restore does, when the
// file has its name already.
func TestAFailedSyncOfTheFolderLosesNothing(t *testing.T) {
	ofFolder := func(path string) bool { return !strings.Contains(path, fileName) }
	for _, name := range []string{"runs", "restore"} {
		failSyncs(t, name, closing, 2, ofFolder, func(rec *record) []cut {
			return []cut{{at: len(rec.events)}, {at: len(rec.events), draw: 1}}
		})
	}
}

// The next sync does not keep what a failed one covered, and checkpoints rely on what it should have kept.
func TestNormal_FailedSyncOfWALIsMadeGood(t *testing.T) {
	ofWAL := func(path string) bool { return strings.HasSuffix(path, "-wal") }
	failSyncs(t, "normal", dying, 1, ofWAL, func(rec *record) (cuts []cut) {
		for at := rec.hit; at <= len(rec.events); at++ {
			cuts = append(cuts, cut{at: at, draw: uint64(at)})
		}
		return cuts
	})
}

// failSyncs fails each sync of some paths, so many times, and then cuts the power.
func failSyncs(t *testing.T, name string, end ending, times int, of func(path string) bool,
	cuts func(*record) []cut,
) {
	t.Helper()
	r, sc := rig(t, name)
	e, _, _, err := r.census(&point{script: sc, end: end})
	must(t, err)
	tried := 0
	for i, c := range e.calls {
		if c.class != syncs || !of(c.path) {
			continue
		}
		tried++
		p := &point{script: sc, at: i + 1, fault: fault{"EIO", syscall.EIO}, times: times, end: dying}
		_, rec, wrong, err := r.faulty(p)
		must(t, err)
		for _, moment := range cuts(rec) {
			p.cut = &moment
			problems, err := r.powerCut(p, rec)
			must(t, err)
			wrong = append(wrong, problems...)
		}
		if len(wrong) > 0 {
			t.Error(p, wrong)
		}
	}
	if tried == 0 {
		t.Error(name, "no such sync was seen")
	}
}

// A WAL that begins gets its number in steps, with the file's header among them. A kill, a failed
// call and a power cut at each leave a file that opens with its WAL.
func TestForeign_EveryStepOfANumberIsSurvived(t *testing.T) {
	r, sc := rig(t, "foreign")
	e, rec, _, err := r.census(&point{script: sc, end: closing})
	must(t, err)
	judge := func(p *point, problems []string, err error) {
		t.Helper()
		must(t, err)
		if len(problems) > 0 {
			t.Error(p, problems)
		}
	}
	const around = 3
	numbers := 0
	for i, c := range e.calls {
		if c.class != writes || filepath.Base(c.path) != fileName || c.offset != numberAt {
			continue
		}
		numbers++
		for at := i + 1 - around; at <= i+1+around; at++ {
			p := &point{script: sc, at: at, fault: kill, times: 1, end: dying}
			_, problems, err := r.try(p)
			judge(p, problems, err)
		}
		for at := i + 1; at <= i+2; at++ { // the write and its sync
			for killAt := 1; killAt <= 9; killAt += 4 {
				p := &point{script: sc, at: at, fault: fault{"EIO", syscall.EIO}, times: 1, killAt: killAt, end: dying}
				_, problems, err := r.try(p)
				judge(p, problems, err)
			}
		}
	}
	for i, ev := range rec.events[rec.armed():] {
		if ev.kind != evWrite || ev.offset != numberAt || len(ev.data) != 4 {
			continue
		}
		for at := max(i-around, 0); at <= i+3*around; at++ { // up to the sync of the commit
			for draw := range uint64(2) {
				p := &point{script: sc, end: closing, cut: &cut{at: rec.armed() + at, draw: draw}}
				problems, err := r.powerCut(p, rec)
				judge(p, problems, err)
			}
		}
	}
	// the first one, and that after the close; a reader in between keeps a WAL from restarting
	if numbers < 2 {
		t.Errorf("only %d WALs got a number", numbers)
	}
}

// numberAt is where user_version lies in the header of a database.
const numberAt = 60

// SQLite opens a file for reading if it can't be opened for writing at that moment.
func TestAHandleThatCantWriteIsNotOpened(t *testing.T) {
	r, sc := rig(t, "recover")
	e, _, _, err := r.census(&point{script: sc, end: closing})
	must(t, err)
	for i, c := range e.calls {
		if c.class != opens || filepath.Base(c.path) != fileName {
			continue
		}
		p := &point{script: sc, at: i + 1, fault: fault{"EMFILE", syscall.EMFILE}, times: 1, end: dying}
		_, problems, err := r.try(p)
		must(t, err)
		if len(problems) > 0 {
			t.Error(p, problems)
		}
	}
}
