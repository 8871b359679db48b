package legacy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
)

// pausedRun is the document of a run that waits.
func pausedRun(t testing.TB, run, prompt string) string {
	t.Helper()
	p := &checkpoints.PausedWorkflow{
		RunID: run, Workflow: checkpoints.Workflow{ID: "w", Name: "w", Start: "a"}, PausedStageID: "a",
		Prompt:    prompt,
		CreatedAt: time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC),
	}
	document, err := p.Document()
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

// An oldStore is a folder of checkpoints as the old program works on it.
type oldStore struct {
	t   testing.TB
	dir string
}

func (o oldStore) at(name string) string { return filepath.Join(o.dir, name) }

func (o oldStore) must(err error) {
	o.t.Helper()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		o.t.Fatal(err)
	}
}

func (o oldStore) save(run, document string) {
	o.must(os.WriteFile(o.at(run+".tmp"), []byte(document), 0o600))
	o.must(os.Rename(o.at(run+".tmp"), o.at(run+".json")))
}

func (o oldStore) claim(run string)    { o.must(os.Rename(o.at(run+".json"), o.at(run+".inflight"))) }
func (o oldStore) complete(run string) { o.must(os.Remove(o.at(run + ".inflight"))) }

func (o oldStore) remove(run string) {
	o.must(os.Remove(o.at(run + ".json")))
	o.must(os.Remove(o.at(run + ".inflight")))
}

func (o oldStore) recover(run string) {
	if _, err := os.Stat(o.at(run + ".json")); err == nil {
		o.complete(run)
		return
	}
	o.must(os.Rename(o.at(run+".inflight"), o.at(run+".json")))
}

const statePaused, stateClaimed = string(checkpoints.Paused), string(checkpoints.Claimed)

// held are a run's documents by their state.
type held map[string]string

func (o oldStore) held(run string) held {
	h := held{}
	for state, extension := range map[string]string{statePaused: ".json", stateClaimed: ".inflight"} {
		if text, err := os.ReadFile(o.at(run + extension)); err == nil {
			h[state] = string(text)
		}
	}
	return h
}

// ours are the documents that are here of a run.
func ours(t testing.TB, d *db.DB, run string) held {
	t.Helper()
	h := held{}
	err := d.Read(context.Background(), "test", func(rx *db.Rx) error {
		for _, state := range []string{statePaused, stateClaimed} {
			ref := checkpoints.Ref{RunID: run, State: checkpoints.State(state)}
			text, err := checkpoints.NewStore(d, checkpoints.Options{}).DocumentTx(rx, ref)
			switch {
			case err == nil:
				h[state] = string(text)
			case !errors.Is(err, db.ErrNotFound):
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func importCheckpoints(t testing.TB, d *db.DB, dir string) Report {
	t.Helper()
	report, err := Import(context.Background(), d, Checkpoints, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for noun, c := range report.Counts {
		if c.Read != c.New+c.Already+c.Changed+c.Quarantined {
			t.Errorf("the counts of %s don't add up: %+v", noun, c)
		}
	}
	return report
}

func TestImport_FollowsOldCheckpointChanges(t *testing.T) {
	ctx, d, old := context.Background(), emptyFile(t), oldStore{t, t.TempDir()}
	for _, run := range []string{"finished", "claimed", "removed", "again", "still"} {
		old.save(run, pausedRun(t, run, "first"))
	}
	importCheckpoints(t, d, old.dir)
	old.claim("finished")
	old.complete("finished")
	old.claim("claimed")
	old.remove("removed")
	old.claim("again")
	old.save("again", pausedRun(t, "again", "second"))

	report := importCheckpoints(t, d, old.dir)
	if report.Partial() || len(report.Followed) != 3 {
		t.Errorf("the import says: differs %+v, followed %+v", report.Differs, report.Followed)
	}
	if report.Files.Gone != 2 {
		t.Errorf("files: %+v", report.Files)
	}
	for _, run := range []string{"finished", "claimed", "removed", "again", "still"} {
		if is, want := ours(t, d, run), old.held(run); !maps.Equal(is, want) {
			t.Errorf("%s is %v here and %v there", run, is, want)
		}
	}
	store := checkpoints.NewStore(d, checkpoints.Options{})
	for run, offered := range map[string]bool{
		"finished": false, "claimed": false, "removed": false,
		"again": true, "still": true,
	} {
		if _, ok, err := store.Claim(ctx, run); ok != offered || err != nil {
			t.Errorf("a claim of %s: %v, %v", run, ok, err)
		}
	}
	old.complete("claimed")
	importCheckpoints(t, d, old.dir)
	if left := ours(t, d, "claimed"); len(left) != 0 {
		t.Errorf("what was finished there after its claim is here: %v", left)
	}
}

// Who takes ours while nobody can look at the folder has not decided over what nobody saw.
func TestResolve_OursForgetsNothingWhileFolderAway(t *testing.T) {
	ctx, d, old := context.Background(), emptyFile(t), oldStore{t, filepath.Join(t.TempDir(), "store")}
	if err := os.Mkdir(old.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	store := checkpoints.NewStore(d, checkpoints.Options{})
	old.save("r-1", pausedRun(t, "r-1", "first"))
	importCheckpoints(t, d, old.dir)
	claim, _, err := store.Claim(ctx, "r-1")
	if err == nil {
		err = claim.Complete(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	old.claim("r-1")
	if report := importCheckpoints(t, d, old.dir); len(report.Differs) != 1 {
		t.Fatalf("%+v", report.Differs)
	}
	if err := os.Rename(old.dir, old.dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(ctx, d, "r-1", TakeOurs, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old.dir+"-away", old.dir); err != nil {
		t.Fatal(err)
	}
	report := importCheckpoints(t, d, old.dir)
	if len(report.Differs) != 1 || report.Counts["checkpoint"].New > 0 {
		t.Errorf("%+v, %+v", report.Counts, report.Differs)
	}
}

func TestImport_ContestedRunWaitsForDecision(t *testing.T) {
	for _, take := range []Take{TakeOld, TakeOurs} {
		ctx, d, old := context.Background(), emptyFile(t), oldStore{t, t.TempDir()}
		store := checkpoints.NewStore(d, checkpoints.Options{})
		old.save("r-1", pausedRun(t, "r-1", "first"))
		importCheckpoints(t, d, old.dir)
		claim, _, err := store.Claim(ctx, "r-1")
		if err != nil {
			t.Fatal(err)
		}
		if err := claim.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if report := importCheckpoints(t, d, old.dir); report.Partial() {
			t.Errorf("before the old program did anything: %+v", report.Differs)
		}
		old.claim("r-1")
		var first Report
		for i := range 3 {
			report := importCheckpoints(t, d, old.dir)
			if i == 0 {
				first = report
			}
			if len(report.Differs) != 1 || report.Differs[0].File != "r-1.inflight" ||
				!strings.Contains(report.Differs[0].Reason, "migrate imports resolve r-1") ||
				!slices.Equal(report.Differs, first.Differs) {
				t.Errorf("import %d: %+v", i+2, report.Differs)
			}
		}
		if _, ok, err := store.Claim(ctx, "r-1"); ok || !errors.Is(err, db.ErrConflict) {
			t.Errorf("a claim while nobody has decided: %v, %v", ok, err)
		}
		page, err := Conflicts(ctx, d, "", db.At{})
		if err != nil || len(page.Items) != 1 || page.Items[0].EntityID != "r-1" || page.Items[0].Decision != nil {
			t.Fatalf("the conflicts: %+v, %v", page.Items, err)
		}
		decided, err := Resolve(ctx, d, "r-1", take, Options{})
		if err != nil || decided.Decision == nil || decided.Decision.Take != take ||
			decided.Decision.PID != os.Getpid() {
			t.Fatalf("the decision: %+v, %v", decided, err)
		}
		if _, err := Resolve(ctx, d, "r-1", take, Options{}); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("deciding twice: %v", err)
		}
		if list, err := ConflictsOf(ctx, d, decided.Import); err != nil || len(list) != 1 ||
			list[0].Decision == nil {
			t.Errorf("the journal says %+v, %v", list, err)
		}
		if report := importCheckpoints(t, d, old.dir); report.Partial() {
			t.Errorf("%s, once decided: %+v", take, report.Differs)
		}
		if _, ok, err := store.Claim(ctx, "r-1"); ok != (take == TakeOurs) || err != nil {
			t.Errorf("%s: a claim says %v, %v", take, ok, err)
		}
		old.complete("r-1") // and it goes on there
		report := importCheckpoints(t, d, old.dir)
		if here := len(ours(t, d, "r-1")); here != len(report.Differs) || (here == 1) != (take == TakeOurs) {
			t.Errorf("%s: finished there, %d are here, differs %+v", take, here, report.Differs)
		}
	}
}

func TestAFolderThatIsNotThereFinishesNothing(t *testing.T) {
	ctx, d, old := context.Background(), emptyFile(t), oldStore{t, t.TempDir()}
	old.save("r-1", pausedRun(t, "r-1", "first"))
	importCheckpoints(t, d, old.dir)
	away := old.dir + ".away"
	_, err := Import(ctx, d, Checkpoints, old.dir, Options{Progress: func(p Progress) {
		// before the files are read: another folder is in its place, as when a file system is unmounted
		if p.Files == 0 {
			old.must(os.Rename(old.dir, away))
			old.must(os.Mkdir(old.dir, 0o700))
		}
	}})
	if err == nil || len(ours(t, d, "r-1")) != 1 {
		t.Errorf("the import says %v, and %v is here", err, ours(t, d, "r-1"))
	}
}

// A cutover is what should be true of one run while both programs work.
type cutover struct {
	known     held // what the old program had when it was followed last
	here      held
	touched   bool
	contested bool
	retired   bool // gone there by decision: an id that comes back is another's
}

func (c *cutover) imported(now held) {
	switch {
	case c.contested || maps.Equal(now, c.known):
	case c.touched:
		c.contested = true
	default:
		c.known, c.here = now, maps.Clone(now)
	}
}

// TestTwoProgramsThatWorkOnTheSameRuns has the old program and this one do at random what they can
// do, imports now and then, and compares every run with what should have become of it.
func TestTwoProgramsThatWorkOnTheSameRuns(t *testing.T) {
	const runs, rounds, moves = 8, 40, 6
	for seed := range uint64(3) {
		ctx, d, old := context.Background(), emptyFile(t), oldStore{t, t.TempDir()}
		random := rand.New(rand.NewPCG(seed, 10))
		store := checkpoints.NewStore(d, checkpoints.Options{})
		all, claims := map[string]*cutover{}, map[string]*checkpoints.Claim{}
		for i := range runs {
			all[fmt.Sprintf("r-%d", i)] = &cutover{known: held{}, here: held{}}
		}
		names := slices.Sorted(maps.Keys(all))
		documentNumber, decisions := 0, 0
		document := func(run string) string {
			documentNumber++
			return pausedRun(t, run, fmt.Sprint("question ", documentNumber))
		}
		check := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, what, err)
			}
		}
		for round := range rounds {
			for range moves {
				run := names[random.IntN(runs)]
				if all[run].retired {
					continue
				}
				switch random.IntN(6) {
				case 0, 1:
					old.save(run, document(run))
				case 2, 3:
					old.claim(run)
				case 4:
					old.complete(run)
				case 5:
					if random.IntN(2) == 0 {
						old.recover(run)
					} else {
						old.remove(run)
					}
				}
			}
			for range random.IntN(moves) {
				run := names[random.IntN(runs)]
				c := all[run]
				waiting, claimed := c.here[statePaused], c.here[stateClaimed]
				switch random.IntN(5) {
				case 0, 1:
					claim, ok, err := store.Claim(ctx, run)
					if c.contested && waiting != "" {
						if !errors.Is(err, db.ErrConflict) {
							t.Fatalf("seed %d, round %d: %s is offered while nobody has decided: %v, %v", seed, round, run, ok,
								err)
						}
						continue
					}
					check("claim", err)
					if ok != (waiting != "") {
						t.Fatalf("seed %d, round %d: a claim of %s says %v, and here is %v", seed, round, run, ok, c.here)
					}
					if ok {
						claims[run], c.here, c.touched = claim, held{stateClaimed: waiting}, true
					}
				case 2:
					check("complete", store.Complete(ctx, run))
					if claimed != "" {
						delete(c.here, stateClaimed)
						c.touched = true
					}
				case 3:
					if claim := claims[run]; claim != nil && claim.Release(ctx) == nil {
						if waiting == "" {
							c.here[statePaused] = claimed
						}
						delete(c.here, stateClaimed)
					}
				case 4:
					if len(c.known) == 0 { // it would be another's id there
						continue
					}
					text := document(run)
					check("save", store.SaveDocument(ctx, run, []byte(text)))
					c.here[statePaused], c.touched = text, true
				}
			}
			if round%2 == 0 {
				continue
			}
			for _, run := range names {
				all[run].imported(old.held(run))
			}
			report := importCheckpoints(t, d, old.dir)
			named := map[string]bool{}
			for _, r := range report.Differs {
				run, _, _ := strings.Cut(r.File, ".")
				named[run] = true
			}
			for _, run := range names {
				c := all[run]
				if is := ours(t, d, run); !maps.Equal(is, c.here) || named[run] != c.contested {
					t.Fatalf("seed %d, round %d: %s is %v here, should be %v; named %v, should be %v", seed, round, run, is,
						c.here, named[run], c.contested)
				}
				if !c.contested || random.IntN(3) > 0 {
					continue
				}
				take := []Take{TakeOld, TakeOurs}[random.IntN(2)]
				_, err := Resolve(ctx, d, run, take, Options{})
				check("resolve", err)
				decisions++
				c.contested, c.known = false, old.held(run)
				if take == TakeOld {
					c.here, c.touched = maps.Clone(c.known), false
				} else {
					c.touched = true
					c.retired = len(c.known) == 0
				}
			}
			again := importCheckpoints(t, d, old.dir)
			for _, run := range names {
				if is := ours(t, d, run); !maps.Equal(is, all[run].here) {
					t.Fatalf("seed %d, round %d: imported again %s is %v, should be %v", seed, round, run, is, all[run].here)
				}
			}
			if len(again.Followed) > 0 {
				t.Fatalf("seed %d, round %d: a second import follows %+v", seed, round, again.Followed)
			}
		}
		if decisions == 0 {
			t.Errorf("seed %d: nothing was ever to be decided", seed)
		}
		t.Logf("seed %d: %d decisions", seed, decisions)
	}
}

// agentEntry is an entry of the old registry.
func agentEntry(id, status string, n int) string {
	end := ""
	if status != "active" {
		end = "completed_at = \"2200-01-01T00:00:00Z\"\n"
	}
	return fmt.Sprintf("session_id = %q\nthread = \"t\"\nbase_state = \"b-%d\"\n"+
		"started_at = \"2026-05-20T06:59:59Z\"\nattach_precedence = []\nstatus = %q\n"+
		"%scontext_queries = []\n\n[usage_summary]\n", id, n, status, end)
}

// TestTwoProgramsThatWorkOnTheSameAgents is the same for the registry.
func TestTwoProgramsThatWorkOnTheSameAgents(t *testing.T) {
	const entries, rounds, moves = 8, 40, 5
	type agent struct {
		known, here                 string // the entry's base_state and status; "" where there is none
		touched, contested, retired bool
	}
	for seed := range uint64(3) {
		ctx, d, dir := context.Background(), emptyFile(t), t.TempDir()
		random := rand.New(rand.NewPCG(seed, 11))
		registry := agents.NewRegistry(d, agents.Options{})
		all, there := map[string]*agent{}, map[string]string{}
		for i := range entries {
			all[fmt.Sprintf("a-%d", i)] = &agent{}
		}
		names := slices.Sorted(maps.Keys(all))
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		must(os.Mkdir(filepath.Join(dir, "agents"), 0o700))
		number, decisions := 0, 0
		for round := range rounds {
			for range moves {
				id := names[random.IntN(entries)]
				at := filepath.Join(dir, "agents", id+".toml")
				if all[id].retired {
					continue
				}
				switch random.IntN(4) {
				case 0, 1:
					number++
					must(os.WriteFile(at, []byte(agentEntry(id, "active", number)), 0o600))
					there[id] = fmt.Sprintf("b-%d active", number)
				case 2:
					number++
					must(os.WriteFile(at, []byte(agentEntry(id, "complete", number)), 0o600))
					there[id] = fmt.Sprintf("b-%d complete", number)
				case 3:
					if there[id] != "" {
						must(os.Remove(at))
						delete(there, id)
					}
				}
			}
			for range random.IntN(3) {
				id := names[random.IntN(entries)]
				a := all[id]
				base, _, _ := strings.Cut(a.here, " ")
				if a.here == "" {
					continue
				}
				a.touched = true
				if random.IntN(3) == 0 {
					must(registry.Delete(ctx, id))
					a.here = ""
					continue
				}
				must(registry.UpdateStatus(ctx, id, agents.Merged))
				a.here = base + " merged"
			}
			for _, id := range names {
				switch a := all[id]; {
				case there[id] == "" && a.here == "": // gone from both
					a.known, a.touched, a.contested = "", false, false
				case a.contested || there[id] == a.known:
				case a.touched:
					a.contested = true
				default:
					a.known, a.here = there[id], there[id]
				}
			}
			report, err := Import(ctx, d, Agents, dir, Options{})
			must(err)
			named := map[string]bool{}
			for _, r := range report.Differs {
				named[strings.TrimSuffix(r.File, ".toml")] = true
			}
			for _, id := range names {
				a, is := all[id], ""
				e, ok, err := registry.Load(ctx, id)
				must(err)
				if ok {
					is = e.BaseState + " " + string(e.Status)
				}
				if is != a.here || named[id] != a.contested {
					t.Fatalf("seed %d, round %d: %s is %q here, should be %q; named %v, should be %v", seed, round, id, is,
						a.here, named[id], a.contested)
				}
				if !a.contested || random.IntN(3) > 0 {
					continue
				}
				take := []Take{TakeOld, TakeOurs}[random.IntN(2)]
				_, err = Resolve(ctx, d, id, take, Options{})
				must(err)
				decisions++
				a.contested, a.known = false, there[id]
				if take == TakeOld {
					a.here, a.touched = a.known, false
				} else {
					a.retired = a.known == ""
				}
			}
		}
		if decisions == 0 {
			t.Errorf("seed %d: nothing was ever to be decided", seed)
		}
		t.Logf("seed %d: %d decisions", seed, decisions)
	}
}
