package legacy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// measureProgram imports, verifies and exports the tree args[1] with the file args[0] and says how
// much memory it held at most at the end of a batch, in bytes of the Go heap.
func measureProgram(args []string) error {
	debug.SetGCPercent(50)
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	var peak uint64
	o := Options{Progress: func(Progress) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
	}}
	out := filepath.Join(filepath.Dir(args[0]), "out")
	for _, work := range []struct {
		name string
		do   func(context.Context, *db.DB, Kind, string, Options) (Report, error)
		dir  string
	}{
		{"import", Import, args[1]},
		{"import again", Import, args[1]},
		{"verify", Verify, args[1]},
		{"export", Export, out},
		{"import of the export", Import, out},
	} {
		peak = 0
		if _, err := work.do(ctx, d, Runs, work.dir, o); err != nil {
			return fmt.Errorf("%s: %w", work.name, err)
		}
		fmt.Printf("%s %d\n", strings.ReplaceAll(work.name, " ", "-"), peak)
	}
	return d.Close()
}

func measure(t *testing.T, dir string) map[string]uint64 {
	t.Helper()
	p := dbtest.Start(t, "measure", dbtest.Path(t), dir)
	peaks := map[string]uint64{}
	for {
		line, ok := p.Line()
		if !ok {
			break
		}
		var name string
		var peak uint64
		if _, err := fmt.Sscan(line, &name, &peak); err != nil {
			t.Fatal(err)
		}
		peaks[name] = peak
	}
	p.Wait()
	if len(peaks) != 5 {
		t.Fatalf("measured %v", peaks)
	}
	return peaks
}

// bulkTree makes a tree of so many files of so many turns of 2 KB.
func bulkTree(t *testing.T, files, turns int) string {
	t.Helper()
	dir := t.TempDir()
	output := strings.Repeat("x", 2000)
	for i := range files {
		agent, run := fmt.Sprint("agent-", i%10), fmt.Sprint("run-", i)
		folder := filepath.Join(dir, "runs", agent)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(folder, run+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(f)
		_, _ = w.WriteString(startedLine(agent, run)) // Flush tells
		for j := range turns {
			_, _ = fmt.Fprintf(w, `{"record":"turn","index":%d,"output":%q,"verifier_verdict":"not_run"}`+"\n", j,
				output)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestMemoryStaysFlatOnATreeOfAnySize imports 4 MB and 32 MB, as many small files and as one large one.
func TestMemoryStaysFlatOnATreeOfAnySize(t *testing.T) {
	small := measure(t, bulkTree(t, 20, 100))
	for name, dir := range map[string]string{
		"many files":     bulkTree(t, 800, 20),
		"one large file": bulkTree(t, 1, 16000),
	} {
		large := measure(t, dir)
		for work, peak := range large {
			if peak > max(2*small[work], 40<<20) {
				t.Errorf("%s, %s: %d MB of heap for 32 MB, %d MB for 4 MB", name, work, peak>>20, small[work]>>20)
			}
		}
		t.Logf("%s: heap in MB for 32 MB %v, for 4 MB %v", name, inMB(large), inMB(small))
	}
}

func inMB(peaks map[string]uint64) string {
	out := map[string]uint64{}
	for k, v := range peaks {
		out[k] = v >> 20
	}
	text, _ := json.Marshal(out)
	return string(text)
}

// TestImport_LineOf64MBTakesLittleMemory has a turn of 64 MB, and lines of 16 MB that can't be read.
func TestImport_LineOf64MBTakesLittleMemory(t *testing.T) {
	huge := strings.Repeat("y", 64<<20)
	dir := folder{
		"a/turn.jsonl": startedLine("a", "turn") + `{"record":"turn","index":0,"output":"` + huge +
			`","verifier_verdict":"not_run"}` + "\n",
		"a/broken.jsonl": startedLine("a", "broken") + huge[:16<<20] + "\n" + turnLine(0),
		"a/torn.jsonl":   startedLine("a", "torn") + huge[:16<<20],
	}.make(t)
	for work, peak := range measure(t, dir) {
		if peak > 6*64<<20 {
			t.Errorf("%s: %d MB of heap", work, peak>>20)
		}
		t.Logf("%s: %d MB of heap", work, peak>>20)
	}
}
