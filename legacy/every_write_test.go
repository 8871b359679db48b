package legacy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
	"selvedge/workers"
)

// A publicWrite is a call of a store.
type publicWrite struct {
	name string
	do   func(ctx context.Context) error
	// touches stands in the path of every file that the write changes.
	touches string
	// says is what a file that changed has then, as the old program writes it; "" where the answers say enough.
	says string
	// silent says why nothing of the write leaves; "" where something does.
	silent string
}

// Why some writes change no file.
const (
	ownership = "who holds something, and for how long, no old file says"
	pinned    = "what is kept against retention no old file says"
	history   = "what is known of a checkpoint that is over no old file says"
	nested    = "it writes what its function writes, and here that is nothing"
	aside     = "what was put aside has left the folder already"
)

// A storeFile is an imported tree that writes are made on.
type storeFile struct {
	t     *testing.T
	d     *db.DB
	path  string
	clock *dbtest.Clock
}

// diesAtWork has another process take up something of the tree's kind, which ends without giving it back.
func (s *storeFile) diesAtWork(kind Kind) func(context.Context) error {
	return func(context.Context) error {
		dbtest.Start(s.t, "die at work", s.path, string(kind)).Wait()
		return nil
	}
}

// dieAtWork is the program of diesAtWork.
func dieAtWork(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{
		Now:         func() time.Time { return backAt },
		Synchronous: db.SyncNormal,
	})
	if err != nil {
		return err
	}
	switch Kind(args[1]) {
	case Runs:
		_, err = tracesOf(d).Begin(ctx, runs.Started{RunID: "m-3", AgentID: "moved", Intent: "go"},
			runs.BeginOptions{})
	case Live:
		_, err = sessionsOf(d).Begin(ctx, live.Start{ID: "m-4", SessionID: "moved", Prompt: "go"})
	case Agents:
		_, _, err = registryOf(d).TryLeaseThread(ctx, "lost", db.LeaseTerms{TTL: time.Hour},
			func(string) (agents.Entry, error) {
				return agents.Entry{
					SessionID: "lost", Thread: "lost", BaseState: "b", StartedAt: backAt,
					Status: agents.Active,
				}, nil
			})
	case Checkpoints:
		_, _, err = pausesOf(d).Claim(ctx, "m-5")
	case Workers: // nobody holds a worker
	}
	return err
}

// An oldProgram has what the model of the old program reads of a folder, what the store answers to
// the same questions, and the writes, in an order in which each finds something to change.
type oldProgram struct {
	kind   Kind
	reads  func(t *testing.T, dir string) any
	ours   func(ctx context.Context, d *db.DB) (any, error)
	writes func(s *storeFile) []publicWrite
}

// TestOldProgram_AnswersAlikeAfterEveryWrite imports a tree of each kind, makes one public write
// after another, and exports after each: the model of the old program reads the folder and gives
// the answers that the store gives. Nothing but the files of what was written to has other bytes
// than before the write.
func TestOldProgram_AnswersAlikeAfterEveryWrite(t *testing.T) {
	t.Parallel()
	for _, old := range []oldProgram{
		{Runs, oldRuns, ourRuns, runWrites},
		{Live, oldLive, ourLive, liveWrites},
		{Agents, oldAgents, ourAgents, agentWrites},
		{Checkpoints, oldCheckpoints, ourCheckpoints, checkpointWrites},
		{Workers, oldWorkers, ourWorkers, workerWrites},
	} {
		trees, err := replay.Trees(string(old.kind))
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, tree := range trees {
			if strings.HasSuffix(tree.Name, "/small") {
				t.Run(tree.Name, func(t *testing.T) { old.follows(t, tree) })
				tried++
			}
		}
		if tried == 0 {
			t.Errorf("there is no small tree of %s", old.kind)
		}
	}
}

// follows has the old program read an export after each write.
func (old *oldProgram) follows(t *testing.T, tree replay.Tree) {
	t.Parallel() // most of it is waiting for the disk
	ctx := t.Context()
	s := &storeFile{t: t, path: dbtest.Path(t), clock: dbtest.NewClock(backAt)}
	s.d = dbtest.OpenAt(t, s.path, db.Options{Now: s.clock.Now, Synchronous: db.SyncNormal})
	if _, err := Import(ctx, s.d, old.kind, treeFolder(t, old.kind, tree), Options{}); err != nil {
		t.Fatal(err)
	}
	before := old.follow(ctx, s, "import")
	for _, w := range old.writes(s) {
		if err := w.do(ctx); err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		after := old.follow(ctx, s, w.name)
		for _, problem := range w.wrong(before, after) {
			t.Errorf("%s: %s", w.name, problem)
		}
		if before = after; t.Failed() {
			t.FailNow() // what follows goes on from here
		}
	}
}

// follow exports what is stored, and compares what the old program reads of it with what the store answers.
func (old *oldProgram) follow(ctx context.Context, s *storeFile, what string) folder {
	s.t.Helper()
	ours, err := old.ours(ctx, s.d)
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	out := filepath.Join(s.t.TempDir(), "out")
	report, err := Export(ctx, s.d, old.kind, out, Options{})
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	for _, r := range report.Readable {
		if !r.Readable {
			s.t.Errorf("%s: the export says that the old program can't read %q: %s", what, r.File, r.Reason)
		}
	}
	files := filesBelow(s.t, out)
	if d := (replay.Comparison{NullIsAbsent: true}).Diff(old.reads(s.t, out), jsonOf(ours)); d != "" {
		s.t.Errorf("%s: the old program and the store answer otherwise: %s", what, d)
	}
	return files
}

// wrong tells what of an export after the write is not as the write says.
func (w *publicWrite) wrong(before, after folder) (problems []string) {
	changed, said := 0, false
	for _, path := range slices.Concat(sortedKeys(before), sortedKeys(after)) {
		was, isOld := before[path]
		is, isNew := after[path]
		if isOld && isNew && was == is {
			continue
		}
		changed++
		said = said || strings.Contains(is, w.says)
		if w.silent != "" || !strings.Contains(path, w.touches) {
			problems = append(problems, fmt.Sprintf("%q is another\n%s", path, firstOther(was, is)))
		}
	}
	if w.silent == "" && changed == 0 {
		problems = append(problems, "no file is another")
	}
	if w.silent == "" && !said {
		problems = append(problems, fmt.Sprintf("no file that is another has %s", w.says))
	}
	return problems
}

// Every public write of every store is among those that the old program follows.
func TestOldProgram_ReadsEveryPublicWrite(t *testing.T) {
	const keeping = "Renew, on a timer"
	within := map[string]string{
		"Keep": keeping, "AppendRecords": "AppendTurns", "AppendBatch": "Append, which calls it",
		"ImportRecords": "an import", "DeleteImported": "an import",
		"Close": "writes nothing of a store in a file", "Hold": "writes a lease, which is in no tree",
		"Lease": "writes nothing",
	}
	var source []byte
	for _, kind := range Kinds() {
		text, err := os.ReadFile("every_write_" + string(kind) + "_test.go")
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	looked := 0
	for _, store := range []struct {
		kind     any
		receiver string // how the writes above write the one whose method is called
	}{
		{(*runs.Store)(nil), `tracesOf\(\w+(\.d)?\)`},
		{(*runs.Run)(nil), `heldTrace`},
		{(*live.Store)(nil), `sessionsOf\(\w+(\.d)?\)`},
		{(*live.Run)(nil), `heldLive`},
		{(*agents.Registry)(nil), `registryOf\(\w+(\.d)?\)`},
		{(*agents.Lease)(nil), `lease`},
		{(*checkpoints.Store)(nil), `pausesOf\(\w+(\.d)?\)`},
		{(*checkpoints.Claim)(nil), `claim`},
		{(*live.RunHandle)(nil), `cancelling\(\w+(\.d)?\)`},
		{(*workers.Runtime)(nil), `runtime`},
		{(*workers.Runtimes)(nil), `runtimesOf\(\w+(\.d)?\)`},
	} {
		for _, name := range dbtest.PublicWrites(store.kind) {
			looked++
			if _, ok := within[name]; !ok && !regexp.MustCompile(`\b`+store.receiver+`\.`+name+`\(ctx`).Match(source) {
				t.Errorf("what the old program makes of %T.%s is not looked at", store.kind, name)
			}
		}
	}
	if looked < 70 {
		t.Errorf("only %d writes were looked for", looked)
	}
}

func tracesOf(d *db.DB) *runs.Store         { return runs.NewStore(d, runs.Options{}) }
func sessionsOf(d *db.DB) *live.Store       { return live.NewStore(d, live.Options{}) }
func registryOf(d *db.DB) *agents.Registry  { return agents.NewRegistry(d, agents.Options{}) }
func pausesOf(d *db.DB) *checkpoints.Store  { return checkpoints.NewStore(d, checkpoints.Options{}) }
func runtimesOf(d *db.DB) *workers.Runtimes { return workers.NewRuntimes(d, "") }

// cancelling is the handle of a live run, which its session is about.
func cancelling(d *db.DB) *live.RunHandle {
	at := &live.Session{}
	at.SetCurrent("m-3", func() {})
	return live.NewRunHandle("m-3", "moved", sessionsOf(d), at, nil)
}

// one is the error of a call that should have found one thing.
func one(n int, err error) error {
	if err == nil && n != 1 {
		err = fmt.Errorf("%d were found", n)
	}
	return err
}

// some is the error of a call that should have found something.
func some(n int, err error) error { return one(min(n, 1), err) }

func second[T any](_ T, err error) error { return err }
