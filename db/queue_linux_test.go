package db_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func entries(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	return len(list)
}

// tryWrite makes a call that leaves the queue after a while. It is longer than the writer needs to notice.
func tryWrite(t *testing.T, d *db.DB) error {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	return d.Write(ctx, "blocked", func(*db.Tx) error { return nil })
}

func TestQueue_StoppedProcessLeaksNothing(t *testing.T) {
	path, d := openTable(t, numbers)
	holder := dbtest.Start(t, "waiting", path)
	holder.Expect("writing")
	holder.Signal(syscall.SIGSTOP)
	again := func() {
		if err := tryWrite(t, d); !errors.Is(err, db.ErrBusy) {
			t.Errorf("it left with %v", err)
		}
	}
	again()
	threads, files := entries(t, "/proc/self/task"), entries(t, "/proc/self/fd")
	for range 4 {
		again()
	}
	must(t, d.Close())
	for range 3 { // who closes and opens again finds the wait that is there
		e, err := db.Open(t.Context(), path, db.Options{})
		must(t, err)
		if err := tryWrite(t, e); !errors.Is(err, db.ErrBusy) {
			t.Errorf("it left with %v", err)
		}
		must(t, e.Close())
	}
	// The runtime starts threads of its own, but not one a call.
	if n := entries(t, "/proc/self/task"); n > threads+3 {
		t.Errorf("there are %d threads; there were %d", n, threads)
	}
	if n := entries(t, "/proc/self/fd"); n > files {
		t.Errorf("there are %d descriptors; there were %d", n, files)
	}
	holder.Kill()
}

func TestTurns_UnwantedTurnIsPassedOn(t *testing.T) {
	path, d := openTable(t, numbers)
	holder := dbtest.Start(t, "waiting", path)
	holder.Expect("writing")
	if err := tryWrite(t, d); !errors.Is(err, db.ErrBusy) {
		t.Errorf("it left with %v", err)
	}
	holder.Send("go on")
	holder.Wait()
	// This process, which does nothing now, may have got the turn that it waited for.
	next := dbtest.Start(t, "stepper", path, "next")
	next.Send("step")
	next.Expect("0")
	must(t, d.Write(t.Context(), "again", insert("own", 1)))
	next.Send("step")
	next.Expect("1")
	next.Wait()
}

func wantHeldBy(t *testing.T, err error, pid int) {
	t.Helper()
	var e *db.Error
	if !errors.Is(err, db.ErrBusy) || !errors.As(err, &e) || !slices.Equal(e.HeldBy, []int{pid}) {
		t.Fatalf("it left with %v", err)
	}
	if who := fmt.Sprintf("process %d", pid); !strings.Contains(err.Error(), who) ||
		!strings.Contains(db.Hint(err), who) {
		t.Errorf("%q (hint %q) does not name %s", err, db.Hint(err), who)
	}
}

func TestWhoWaitsForAnotherProcessIsToldWhich(t *testing.T) {
	path, d := openTable(t, numbers)
	holder := dbtest.Start(t, "waiting", path)
	holder.Expect("writing")
	wantHeldBy(t, tryWrite(t, d), holder.Pid())
	holder.Send("go on")
	holder.Wait()
	must(t, d.Write(t.Context(), "after", insert("own", 1)))
}

func TestWhoWaitsForAForeignProgramIsToldWhich(t *testing.T) {
	path, d := openTable(t, numbers)
	cmd := exec.Command("sqlite3", path)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = io.WriteString(in, "BEGIN IMMEDIATE; SELECT 'writing';\n")
	must(t, err)
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "writing\n" {
		t.Fatalf("sqlite3 said %q", line)
	}
	wantHeldBy(t, tryWrite(t, d), cmd.Process.Pid)
	must(t, in.Close()) // ends it, and its transaction
	must(t, cmd.Wait())
	must(t, d.Write(t.Context(), "after", insert("own", 1)))
}

func TestBusy_OwnProcessIsNamed(t *testing.T) {
	_, d := openTable(t, numbers)
	done := make(chan error, 1)
	must(t, d.Write(t.Context(), "long", func(*db.Tx) error {
		go func() { done <- tryWrite(t, d) }()
		err := <-done
		var e *db.Error
		if !errors.As(err, &e) || len(e.HeldBy) > 0 || !strings.Contains(db.Hint(err), "this process") {
			t.Errorf("it left with %v (hint %q)", err, db.Hint(err))
		}
		return nil
	}))
}
