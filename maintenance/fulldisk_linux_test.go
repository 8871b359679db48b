package maintenance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func init() { programs["filler"] = fillingProcess }

// A filler fills the disk that its file is on with runs of one agent, and can add to them later.
type filler struct {
	db    *db.DB
	held  *runs.Run
	shown *live.Run
	claim *checkpoints.Claim

	traces *runs.Store
	ended  []string
	open   []string
}

const fillersAgent = "a"

func newFiller(ctx context.Context, path string) (*filler, error) {
	d, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		return nil, err
	}
	f := &filler{db: d, traces: runs.NewStore(d, runs.Options{})}
	if f.held, err = f.traces.Begin(ctx, runs.Started{RunID: "held", AgentID: fillersAgent},
		runs.BeginOptions{}); err != nil {
		return f, err
	}
	if f.shown, err = live.NewStore(d, live.Options{}).Begin(ctx, live.Start{ID: "live"}); err != nil {
		return f, err
	}
	paused := checkpoints.NewStore(d, checkpoints.Options{})
	if err := paused.Save(ctx, &checkpoints.PausedWorkflow{RunID: "claimed"}); err != nil {
		return f, err
	}
	f.claim, _, err = paused.Claim(ctx, "claimed")
	return f, err
}

// turn is one with so many bytes.
func turn(size int) runs.Turn {
	text := strings.Repeat("x", size)
	return runs.Turn{Prompt: &text}
}

// fill appends until nothing goes any more, not even what is small: every other run stays open.
func (f *filler) fill(ctx context.Context) error {
	var err error
	for n := 0; err == nil; n++ {
		id := fmt.Sprint("run-", n)
		if err = f.traces.WriteStarted(ctx, runs.Started{RunID: id, AgentID: fillersAgent}); err != nil {
			break
		}
		for range 8 {
			if err == nil {
				err = f.traces.AppendTurns(ctx, fillersAgent, id, []runs.Turn{turn(20_000)})
			}
		}
		if err == nil && n%2 == 0 {
			err = f.traces.WriteEnded(ctx, runs.Ended{RunID: id, AgentID: fillersAgent})
			f.ended = append(f.ended, id)
		} else {
			f.open = append(f.open, id)
		}
	}
	for errors.Is(err, db.ErrFull) {
		if err = f.add(ctx); err != nil {
			break
		}
		err = db.ErrFull
	}
	if errors.Is(err, db.ErrFull) && !errors.Is(err, db.ErrOutcomeUnknown) {
		return nil
	}
	return fmt.Errorf("while the disk fills: %w", err)
}

// add appends a little to a run that stays open.
func (f *filler) add(ctx context.Context) error {
	return f.traces.AppendTurns(ctx, fillersAgent, "run-1", []runs.Turn{turn(2_000)})
}

// letGo ends what it holds.
func (f *filler) letGo(ctx context.Context) error {
	return errors.Join(
		f.held.End(ctx, runs.Termination{}), f.shown.End(ctx, live.AgentEnd("done")), f.claim.Complete(ctx),
	)
}

// fillingProcess is a filler in a process of its own, which adds, and lets go, when it is told to.
func fillingProcess(args []string) error {
	ctx := context.Background()
	f, err := newFiller(ctx, args[0])
	if err == nil {
		err = f.fill(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(f.ended, " "))
	fmt.Println(strings.Join(f.open, " "))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		does := map[string]func(context.Context) error{"add": f.add, "let go": f.letGo}
		err := does[in.Text()](ctx)
		switch {
		case err == nil:
			fmt.Println("done")
		case errors.Is(err, db.ErrFull) && !errors.Is(err, db.ErrOutcomeUnknown):
			fmt.Println("full")
		default:
			fmt.Println(err)
		}
	}
	return f.db.Close()
}

// A fullDisk is a file on a disk that is full.
type fullDisk struct {
	path        string
	traces      *runs.Store
	db          *db.DB
	ended, open []string
	does        func(what string) string // what who filled it answers
}

// filledHere fills the disk in this process, and filledElsewhere in another one, which stays.
func filledHere(t *testing.T, path string) *fullDisk {
	f, err := newFiller(t.Context(), path)
	if err == nil {
		err = f.fill(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fullDisk{
		path: path, traces: f.traces, db: f.db, ended: f.ended, open: f.open,
		does: func(what string) string {
			err := f.add(t.Context())
			if what == "let go" {
				err = f.letGo(t.Context())
			}
			switch {
			case err == nil:
				return "done"
			case errors.Is(err, db.ErrFull) && !errors.Is(err, db.ErrOutcomeUnknown):
				return "full"
			}
			return err.Error()
		},
	}
}

func filledElsewhere(t *testing.T, path string) *fullDisk {
	p := dbtest.Start(t, "filler", path)
	t.Cleanup(p.Wait)
	words := func() []string {
		line, ok := p.Line()
		if !ok {
			t.Fatal(p.Stderr())
		}
		return strings.Fields(line)
	}
	f := &fullDisk{path: path, ended: words(), open: words(), does: func(what string) string {
		p.Send(what)
		answer, ok := p.Line()
		if !ok {
			t.Fatal(p.Stderr())
		}
		return answer
	}}
	f.db = dbtest.OpenAt(t, path, db.Options{})
	f.traces = runs.NewStore(f.db, runs.Options{})
	return f
}

func TestRootFullDisk_HasAWayOut(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"12m", "24m", "48m"} {
		for name, filled := range map[string]func(*testing.T, string) *fullDisk{
			"own":   filledHere,
			"other": filledElsewhere,
		} {
			t.Run(size+" "+name, func(t *testing.T) {
				t.Parallel()
				dbtest.OnDisks(t, size, func(t *testing.T, dir string) {
					path := filepath.Join(dir, "full.db")
					t.Cleanup(func() { dbtest.Check(t, path) })
					filled(t, path).emptied(t)
				})
			})
		}
	}
}

// emptied goes every way out.
func (f *fullDisk) emptied(t *testing.T) {
	ctx := t.Context()
	answers := func(what, want string) {
		t.Helper()
		if got := f.does(what); got != want {
			t.Errorf("%s: %s", what, got)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v (hint: %s)", err, db.Hint(err))
		}
	}
	ref := func(id string) runs.RunRef { return runs.RunRef{AgentID: fillersAgent, RunID: id} }
	answers("add", "full")
	must(f.traces.Delete(ctx, ref(f.ended[0])))
	for _, id := range f.open[1:] {
		if err := f.traces.Delete(ctx, ref(id)); !errors.Is(err, db.ErrConflict) {
			t.Errorf("delete an open run: %v", err)
		}
		must(f.traces.WriteEnded(ctx, runs.Ended{RunID: id, AgentID: fillersAgent}))
	}
	answers("let go", "done")
	must(f.traces.Delete(ctx, ref("held")))
	for _, id := range f.open[1 : len(f.open)/2] {
		must(f.traces.Delete(ctx, ref(id)))
	}
	removed, err := runs.NewStore(f.db, runs.Options{Retention: &runs.RetentionConfig{
		MaxPerAgent: 2,
		MaxAgeDays:  30,
	}}).GC(ctx)
	if err != nil || removed == 0 {
		t.Errorf("gc removed %d, %v", removed, err)
	}
	h, err := f.db.Health(ctx)
	must(err)
	free := dbtest.FreeFor(t, f.path)
	least := dbtest.LeastFreeFor(t, f.path)
	kept := (h.Pages - h.FreePages) * h.PageSize
	began := time.Now()
	dbtest.Await(t, "what was freed is on the disk", func() bool {
		info, err := os.Stat(f.path)
		return err == nil && info.Size() < kept+1<<20
	})
	if took := time.Since(began); took > time.Minute {
		t.Errorf("what was freed was on the disk after %v", took)
	}
	if least := least(); least < free/2 {
		t.Errorf("of %d KB that were free, %d were left meanwhile", free>>10, least>>10)
	}
	for range 20 {
		answers("add", "done")
		must(f.traces.AppendTurns(ctx, fillersAgent, "run-1", []runs.Turn{turn(20_000)}))
	}
	for _, id := range f.ended {
		if records, found, err := f.traces.GetRunTrace(ctx, id); err != nil || found && len(records) != 10 {
			t.Errorf("%s has %d records, %v", id, len(records), err)
		}
	}
}
