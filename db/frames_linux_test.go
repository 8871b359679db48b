package db_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// writesOfThread is how many calls to write this thread has made: proc_pid_io(5), syscw.
func writesOfThread(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/io")
	must(t, err)
	_, line, _ := strings.Cut(string(text), "syscw: ")
	_, err = fmt.Sscan(line, &n)
	must(t, err)
	return n
}

func TestCommit_WritesPagesWithOneCall(t *testing.T) {
	path, d := openTable(t, numbers)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const frame = 24 + 4096
	frames := func() int64 {
		info, err := os.Stat(path + "-wal")
		must(t, err)
		return info.Size() / frame
	}
	calls, before := writesOfThread(t), frames()
	for i := range 20 {
		must(t, d.Write(t.Context(), "add", insert(strings.Repeat("b", 5000), i)))
	}
	calls = writesOfThread(t) - calls
	if written := frames() - before; written < 80 || calls > written/2 { // Go's own wake-ups among them
		t.Errorf("%d pages took %d calls", written, calls)
	}
}

// A checkpoint writes each page of the file with a call.
func TestCommit_LeavesCheckpointToAnotherConnection(t *testing.T) {
	path, d := openTable(t, numbers)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := 0; sizeOf(t, path+"-wal") < 4000*4120; i++ { // until the WAL has its working size
		before := writesOfThread(t)
		must(t, d.Write(t.Context(), "add", insert(strings.Repeat("b", 1<<20), i)))
		if calls := writesOfThread(t) - before; calls > 1000 {
			t.Errorf("a commit made %d calls", calls)
		}
	}
	dbtest.Await(t, "the checkpoint", func() bool { return d.Work().Checkpoints > 0 })
}

// SQLite computes the checksums of a transaction's pages anew when it changed some that it had
// written to the WAL before.
func TestATransactionThatChangesWrittenPagesAgainIsWhole(t *testing.T) {
	const rows = 1000 // twice what the page cache holds
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	write(t, d, numbers)
	must(t, d.Write(t.Context(), "add and change", func(tx *db.Tx) error {
		for i := range rows {
			if err := insert(strings.Repeat("a", 3000), i)(tx); err != nil {
				return err
			}
		}
		_, err := tx.Exec("UPDATE numbers SET n = n + 1")
		return err
	}))
	// without the index of the WAL, which is made again from its checksums
	copied := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		must(t, err)
		must(t, os.WriteFile(copied+suffix, data, 0o600))
	}
	d = dbtest.OpenAt(t, copied, db.Options{})
	if n := count(t, d, "n > 0"); n != rows {
		t.Errorf("%d rows of %d are there", n, rows)
	}
}

// A file that was opened has one connection, which goes to the first call. A write beside a first read
// opens its own.
func TestOpen_OneConnectionForFirstRead(t *testing.T) {
	path, d := openTable(t, numbers)
	must(t, d.Close())
	d, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	connections := func(want int, when string) {
		t.Helper()
		if got := len(dbtest.OpenBelow(t, path+"-wal")); got != want {
			t.Errorf("%s: %d connections, not %d", when, got, want)
		}
	}
	connections(1, "open")
	must(t, d.Read(t.Context(), "count", func(rx *db.Rx) error {
		var before, after int
		err := rx.Get(&before, "SELECT count(*) FROM numbers")
		connections(1, "in the first read")
		var all sync.WaitGroup
		all.Go(func() { must(t, d.Write(t.Context(), "add", insert("a", 1))) })
		all.Wait()
		if err == nil {
			err = rx.Get(&after, "SELECT count(*) FROM numbers")
		}
		if before != 0 || after != 0 {
			t.Errorf("the read saw %d rows, and then %d", before, after)
		}
		return err
	}))
	must(t, d.Close())
}
