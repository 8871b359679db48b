package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// As whoever's disk is full does it: a command fails, its hint is pasted, and the command works again.
func TestRootFullDisk_HintMakesRoom(t *testing.T) {
	folder := dbtest.SmallDisk(t, "size=24m")
	file := filepath.Join(folder, "agents.db")
	// Runs that ended long ago, until the disk is full, in a file that had its reserve before.
	output := json.RawMessage(`"` + strings.Repeat("x", 50_000) + `"`)
	fill := func(from, to int) (err error) {
		d, err := db.Open(t.Context(), file, db.Options{})
		if err != nil {
			return err
		}
		traces := runs.NewStore(d, runs.Options{})
		for i := from; err == nil && i < to; i++ {
			id, at := fmt.Sprint("run-", i), time.Date(2020, 1, 1, 0, i, 0, 0, time.UTC)
			err = traces.AppendRecords(t.Context(), "agent-a", id, []runs.Record{
				runs.Started{RunID: id, AgentID: "agent-a", StartedAt: at},
				runs.Turn{Output: output},
				runs.Ended{RunID: id, AgentID: "agent-a", EndedAt: at},
			})
		}
		return errors.Join(err, d.Close())
	}
	if err := fill(0, 100); err != nil {
		t.Fatal(err)
	}
	if err := fill(100, 1000); !errors.Is(err, db.ErrFull) {
		t.Fatal(err)
	}
	full, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}

	tree := filepath.Join(t.TempDir(), "typical")
	if err := os.Rename(unpackTree(t, "typical"), tree); err != nil {
		t.Fatal(err)
	}
	exit, _, stderr := call(t, "--db", file, "import", "runs", tree)
	_, hint, found := strings.Cut(stderr, "goes with: ")
	if exit != kindFailed.exit || !found {
		t.Fatalf("an import into a full disk: exit %d\n%s", exit, stderr)
	}
	words := shellWords(hint)
	exit, stdout, stderr := call(t, words[1:]...)
	if exit != 0 {
		t.Fatalf("%s: exit %d\n%s", hint, exit, stderr)
	}
	if info, err := os.Stat(file); err != nil || info.Size() > full.Size()/2 {
		t.Errorf("the file takes %d bytes of %d, %v\n%s", info.Size(), full.Size(), err, stdout)
	}
	if exit, _, stderr := call(t, "--db", file, "import", "runs", unpackTree(t, "small")); exit != 0 {
		t.Errorf("an import after that: exit %d\n%s", exit, stderr)
	}
}

func TestRootFullDisk_IsNamed(t *testing.T) {
	folder := dbtest.SmallDisk(t, "size=4m")
	file := filepath.Join(folder, "agents.db")
	if exit, _, stderr := call(t, "--db", file, "up"); exit != 0 {
		t.Fatal(stderr)
	}
	filler, err := os.Create(filepath.Join(folder, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for piece := make([]byte, 1<<12); err == nil; {
		_, err = filler.Write(piece)
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	if exit, stdout, stderr := call(t, "--db", file, "doctor"); exit != 0 ||
		!strings.Contains(stdout, "free space\ttodo\t") ||
		!strings.Contains(stdout, "migrate --db "+file+" gc --apply") {
		t.Errorf("doctor: exit %d\n%s%s", exit, stdout, stderr)
	}
	if exit, _, stderr := call(t, "--db", file, "gc"); exit != kindFailed.exit ||
		!strings.Contains(stderr, "hint: free 1 MiB") {
		t.Errorf("gc: exit %d\n%s", exit, stderr)
	}
	if err := os.Truncate(filepath.Join(folder, "filler"), 0); err != nil {
		t.Fatal(err)
	}
	if exit, _, stderr := call(t, "--db", file, "gc", "--apply"); exit != 0 {
		t.Errorf("gc with room: exit %d\n%s", exit, stderr)
	}
}

func TestRootFullDisk_StoppedSaysNextStep(t *testing.T) {
	folder := dbtest.SmallDisk(t, "size=24m")
	file, target := filepath.Join(folder, "agents.db"), filepath.Join(folder, "target.db")
	d := dbtest.OpenAt(t, file, db.Options{})
	turn := runs.Turn{Output: json.RawMessage(`"sk-SECRET` + strings.Repeat("x", 50_000) + `"`)}
	traces := runs.NewStore(d, runs.Options{})
	var err error
	for i := 0; err == nil && i < 240; i++ {
		err = traces.AppendRecords(t.Context(), "agent-a", fmt.Sprint(i), []runs.Record{turn})
	}
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	exit, _, stderr := call(t, "--db", file, "move", "--to", target)
	_, back, found := strings.Cut(stderr, "again to go on; if it had begun, the source is given back with: ")
	if exit != kindFailed.exit || !found {
		t.Fatalf("move: exit %d\n%s", exit, stderr)
	}
	if exit, _, stderr := call(t, shellWords(back)[1:]...); exit != 0 {
		t.Fatalf("%s: exit %d\n%s", back, exit, stderr)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	exit, _, stderr = call(t, "--db", file, "redact", "--pattern", "sk-[A-Z]+", "--yes")
	if exit != kindFailed.exit || !strings.Contains(stderr, "and run it again: what was done stays done") ||
		strings.Contains(stderr, "nothing was changed") {
		t.Errorf("redact: exit %d\n%s", exit, stderr)
	}
}
