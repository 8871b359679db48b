package legacy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// programs are what the tests start as other processes.
var programs = map[string]dbtest.Program{
	"import": importProgram, "verify": verifyProgram, "measure": measureProgram, "die at work": dieAtWork,
}

func TestMain(m *testing.M) { dbtest.Main(m, programs) }

// killBatch makes an import of many transactions out of a small tree.
const killBatch = 1500

// importProgram imports the tree args[1] into the file args[0], and says so after each batch: one
// of runs, or of the kind args[2] into the scope args[3].
func importProgram(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	o := Options{BatchBytes: killBatch, Progress: func(p Progress) { fmt.Println("batch", p.Files) }}
	kind := Runs
	if len(args) > 2 {
		kind, o.Scope = Kind(args[2]), args[3]
	}
	if _, err := Import(ctx, d, kind, args[1], o); err != nil {
		return err
	}
	return d.Close()
}

// TestImport_KilledAnywhereEndsTheSame kills imports with SIGKILL, at random moments of random
// batches, again and again on the same file until one comes through. The tree has everything:
// traces of many batches, torn tails, bad lines, a changed source, one that grew, and a second root
// that is refused.
func TestImport_KilledAnywhereEndsTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	before, after, foreign := folder{}, folder{}, folder{}
	for i := range 30 {
		agent := fmt.Sprint("agent-", i%4)
		path := fmt.Sprintf("%s/r%d.jsonl", agent, i)
		text := oddTrace(random, agent, fmt.Sprint("r", i))
		before[path], after[path] = text, text
		switch i % 5 {
		case 0:
			after[path] = text + turnLine(9) + endedLine(agent, fmt.Sprint("r", i))
		case 1:
			after[path] = startedLine(agent, "changed") + text
		case 2:
			foreign[path] = text + turnLine(5)
		}
	}
	after["agent-0/long.jsonl"] = startedLine("agent-0", "long") + strings.Repeat(turnLine(1)+"bad\n", 150) +
		"torn"
	foreign["agent-0/long.jsonl"] = startedLine("agent-0", "long") + strings.Repeat(turnLine(2), 150)
	dir, elsewhere := before.make(t), foreign.make(t)
	stages := []func() string{
		func() string { return dir },
		func() string { after.in(t, dir); return dir },
		func() string { return elsewhere },
	}
	base := dbtest.Path(t)
	for _, stage := range stages {
		p := dbtest.Start(t, "import", base, stage())
		p.Wait()
	}
	want := dumpOf(t, base)

	kills := 0
	for round := range 10 {
		path := dbtest.Path(t)
		before.in(t, dir)
		if err := os.Remove(filepath.Join(dir, "runs/agent-0/long.jsonl")); err != nil {
			t.Fatal(err)
		}
		for _, stage := range stages {
			kills += importKilled(t, random, path, stage())
		}
		if diff := firstDifference(want, dumpOf(t, path)); diff != "" {
			t.Fatalf("round %d: killed %d times, and then: %s", round, kills, diff)
		}
	}
	if kills < 60 {
		t.Errorf("only %d imports were killed", kills)
	}
	t.Logf("%d imports killed", kills)
}

// importKilled runs the import until it comes through, and kills the first runs of it.
func importKilled(t *testing.T, random *rand.Rand, path, dir string) (kills int) {
	t.Helper()
	for range 3 {
		p := dbtest.Start(t, "import", path, dir)
		for range 1 + random.IntN(12) {
			if _, ok := p.Line(); !ok {
				break
			}
		}
		<-time.After(time.Duration(random.IntN(3000)) * time.Microsecond) // somewhere in the next batch
		p.Kill()
		kills++
	}
	dbtest.Start(t, "import", path, dir).Wait()
	return kills
}

func dumpOf(t *testing.T, path string) []string {
	t.Helper()
	d, err := db.Open(context.Background(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	return dump(t, d)
}
