package storetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// Each of these breaks one thing, and the law that is named must notice.
var broken = []struct {
	name   string
	store  string
	law    string
	engine func(e *engine) // what is wrong with the file; nil: nothing
	runs   func(s *things[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary])
}{
	{
		name: "another handle has another file", store: "checkpoints", law: "a read is one snapshot",
		engine: func(e *engine) { e.shared.Again = func(t *testing.T, _ *db.DB) *db.DB { return e.open(t) } },
	},
	{
		name: "another handle has another file, where one follows", store: "live",
		law:    "a follower gets what is there and what comes",
		engine: func(e *engine) { e.shared.Again = func(t *testing.T, _ *db.DB) *db.DB { return e.open(t) } },
	},
	{
		name: "another handle has another file, where one claims", store: "agents",
		law:    "of those who take one wins",
		engine: func(e *engine) { e.shared.Again = func(t *testing.T, _ *db.DB) *db.DB { return e.open(t) } },
	},
	{
		name: "every handle has one file", store: "workers", law: "a transaction of another file is ErrInvalid",
		engine: func(e *engine) {
			open, path := e.open, ""
			e.open = func(t *testing.T) *db.DB {
				if path == "" {
					path = open(t).Path()
				}
				return openAt(t, path)
			}
		},
	},
	{
		name: "an event in five is lost", store: "live", law: "sequences are dense, whoever writes",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON live_events WHEN new.id % 5 = 0 BEGIN DELETE
			FROM live_events WHERE id = new.id; END`),
	},
	{
		name: "a record in five is lost", store: "runs", law: "a follower gets what is there and what comes",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON run_records WHEN new.id % 5 = 0 BEGIN DELETE
			FROM run_records WHERE id = new.id; END`),
	},
	{
		name: "a text loses what is behind a NUL", store: "workers",
		law: "a value comes back byte for byte or is refused",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON worker_entries WHEN instr(new.content, char(0)) > 0
BEGIN UPDATE worker_entries SET content = substr(content, 1, instr(content, char(0)) - 1)
	WHERE id = new.id; END`),
	},
	{
		name: "JSON is written anew", store: "checkpoints", law: "a value comes back byte for byte or is refused",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON checkpoint_documents
BEGIN UPDATE checkpoint_documents SET document = CAST(json(CAST(document AS TEXT)) AS BLOB)
	WHERE checkpoint = new.checkpoint; END`),
	},
	{
		name: "reservations are lost", store: "reservations", law: "of those who take one wins",
		engine: spoiled(`CREATE TRIGGER broken AFTER INSERT ON leases BEGIN DELETE FROM leases
			WHERE epoch = new.epoch; END`),
	},
	{
		name: "a claim has the epoch of the one before", store: "checkpoints",
		law: "epochs grow, and who was replaced is refused",
		engine: spoiled(`CREATE TRIGGER broken AFTER UPDATE OF state ON checkpoints WHEN new.state = 'claimed'
BEGIN UPDATE checkpoints SET epoch = (id << 24) + 1 WHERE id = new.id; END`),
	},
	{
		name: "what was released is not given up", store: "reservations",
		law:    "epochs grow, and who was replaced is refused",
		engine: spoiled(`CREATE TRIGGER broken BEFORE DELETE ON leases BEGIN SELECT raise(IGNORE); END`),
	},
	{
		name: "a removal leaves the thing", store: "agents", law: "scopes are apart",
		engine: spoiled(`CREATE TRIGGER broken BEFORE DELETE ON agents BEGIN SELECT raise(IGNORE); END`),
	},
	{
		name: "the oldest come first", store: "runs", law: "pages of any size give the list",
		runs: func(s *runThings) { s.newest = false },
	},
	{
		name: "a missing run is no error", store: "runs", law: "a thing that is missing is ErrNotFound",
		runs: func(s *runThings) { s.lister = &brokenLister{runLister: s.lister, neverMisses: true} },
	},
	{
		name: "a limit is taken as it comes", store: "runs", law: "limits are 50, and 1 to 1000",
		runs: func(s *runThings) { s.lister = &brokenLister{runLister: s.lister, anyLimit: true} },
	},
	{
		name: "the transaction given is not the one that is used", store: "runs",
		law:  "a function that fails leaves nothing",
		runs: func(s *runThings) { s.lister = &brokenLister{runLister: s.lister, ownTransaction: true} },
	},
	{
		name: "pruning takes what runs", store: "runs", law: "what has ended is pruned by the policy",
		runs: func(s *runThings) {
			prune, list := s.prune, s.lister
			s.prune = func(ctx context.Context, policy db.Policy) (db.Pruned, error) {
				done, err := prune(ctx, policy)
				if done.Removed > 0 && !policy.DryRun {
					err = list.Delete(ctx, nthRun(3))
				}
				return done, err
			}
		},
	},
	{
		name: "a pin does nothing", store: "runs", law: "what is pinned no limit removes",
		runs: func(s *runThings) { s.pins = idlePins{} },
	},
	{
		name: "a zero time is the zero time", store: "runs", law: "a zero time is that of the transaction",
		runs: func(s *runThings) { s.began = func(runs.RunSummary) time.Time { return time.Time{} } },
	},
}

type (
	runThings = things[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary]
	runLister = lister[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary]
)

// A brokenLister has one fault.
type brokenLister struct {
	runLister
	neverMisses, anyLimit, ownTransaction bool
	later                                 []runs.RunRef // to be deleted in a transaction of its own
}

func (l *brokenLister) Get(ctx context.Context, ref runs.RunRef) (runs.RunSummary, error) {
	run, err := l.runLister.Get(ctx, ref)
	if l.neverMisses {
		err = nil
	}
	return run, err
}

func (l *brokenLister) Page(ctx context.Context, f runs.Filter, at db.At) (db.Page[runs.RunSummary], error) {
	for _, ref := range l.later {
		if err := l.Delete(ctx, ref); err != nil {
			return db.Page[runs.RunSummary]{}, err
		}
	}
	l.later = nil
	if l.anyLimit {
		at.Limit = min(max(at.Limit, 0), db.MaxLimit)
	}
	return l.runLister.Page(ctx, f, at)
}

func (l *brokenLister) DeleteTx(tx *db.Tx, ref runs.RunRef) error {
	if l.ownTransaction {
		l.later = append(l.later, ref)
		return nil
	}
	return l.runLister.DeleteTx(tx, ref)
}

// idlePins pin nothing.
type idlePins struct{}

func (idlePins) Pin(context.Context, runs.RunRef) error   { return nil }
func (idlePins) PinTx(*db.Tx, runs.RunRef) error          { return nil }
func (idlePins) Unpin(context.Context, runs.RunRef) error { return nil }
func (idlePins) UnpinTx(*db.Tx, runs.RunRef) error        { return nil }

// spoiled gives a file that does something to what is written to it.
func spoiled(trigger string) func(e *engine) {
	return func(e *engine) {
		open := e.open
		e.open = func(t *testing.T) *db.DB {
			d := open(t)
			must(t, d.Write(t.Context(), "break it", func(tx *db.Tx) error { return second(tx.Exec(trigger)) }))
			return d
		}
	}
}

func openAt(t *testing.T, path string) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), path, db.Options{Synchronous: db.SyncNormal})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// brokenVariable makes the tests break what is in the list.
const brokenVariable = "SELVEDGE_STORETEST_BROKEN"

// What fails here fails in a run of its own, which is read.
func TestEveryFaultIsNoticed(t *testing.T) {
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithFaults$", "-test.v")
	command.Env = append(os.Environ(), brokenVariable+"=1")
	out, err := command.CombinedOutput()
	if err == nil {
		t.Error("the run with faults passed")
	}
	for _, b := range broken {
		if name := testName(b.name, b.store, b.law); !strings.Contains(string(out), "--- FAIL: "+name+" (") {
			t.Errorf("%s: nobody noticed", name)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

func testName(words ...string) string {
	return strings.ReplaceAll("TestWithFaults/"+strings.Join(words, "/"), " ", "_")
}

func TestWithFaults(t *testing.T) {
	if os.Getenv(brokenVariable) == "" {
		return // TestEveryFaultIsNoticed runs it
	}
	patience = time.Second
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			e := &engine{
				open:   func(t *testing.T) *db.DB { return openAt(t, filepath.Join(t.TempDir(), "selvedge.db")) },
				shared: Shared{Again: func(t *testing.T, d *db.DB) *db.DB { return openAt(t, d.Path()) }},
			}
			if b.engine != nil {
				b.engine(e)
			}
			list := stores
			if b.runs != nil {
				list = []store{{name: "runs", laws: lists[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary](
					func(t *testing.T, d *db.DB, scope string) runThings {
						s := listedRuns(t, d, scope)
						b.runs(&s)
						return s
					}).laws()}}
			}
			for _, s := range list {
				for _, l := range s.laws {
					if s.name == b.store && l.name == b.law {
						run(t, []store{{s.name, []law{l}, s.holds}}, e)
					}
				}
			}
		})
	}
}
