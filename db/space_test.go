package db_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// walLimit is what the package promises of the -wal file while no read takes long.
const walLimit = 64 << 20

// readUntil reads until so many writes were counted, or ctx ends.
func readUntil(ctx context.Context, d *db.DB, why string, writes *atomic.Int64, target int64) error {
	changes, err := d.Changes(ctx)
	if err != nil {
		return err
	}
	return d.Read(ctx, why, func(rx *db.Rx) error {
		if err := rx.Get(new(int), "SELECT count(*) FROM numbers"); err != nil {
			return err
		}
		for writes.Load() < target && ctx.Err() == nil {
			<-changes
		}
		return nil
	})
}

func TestTheWALIsBoundedUnderReadersThatOverlap(t *testing.T) {
	d := openNumbers(t, db.Options{Synchronous: db.SyncNormal, Readers: 2})
	ctx, stop := context.WithCancel(t.Context())
	// Each reader stays for a while, and while one is there another one comes: SQLite alone could not
	// start the WAL again.
	var writes atomic.Int64
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = readUntil(ctx, d, fmt.Sprint("reader ", i), &writes, writes.Load()+10)
			}
		})
	}
	body := strings.Repeat("x", 100<<10)
	const written = 1500 * 100 << 10
	var largest int64
	for range 1500 {
		write(t, d, "INSERT OR REPLACE INTO numbers (id, name, n) VALUES (1, ?, 1)", body)
		writes.Add(1)
		largest = max(largest, sizeOf(t, d.Path()+"-wal"))
	}
	stop()
	wg.Wait()
	t.Logf("%d MB were written, and the WAL had at most %d MB", written>>20, largest>>20)
	if largest > walLimit {
		t.Errorf("the WAL grew to %d MB", largest>>20)
	}
}

func TestHealth_NamesLongReadAndWALShrinks(t *testing.T) {
	db.WithGapPatience(t, 1500*time.Millisecond) // enough for the writer to wait for the gap before it gives up
	d := openNumbers(t, db.Options{Synchronous: db.SyncNormal, Readers: 3})
	reading, enough := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = d.Read(t.Context(), "count slowly", func(rx *db.Rx) error {
			err := rx.Get(new(int), "SELECT count(*) FROM numbers")
			close(reading)
			<-enough
			return err
		})
	})
	<-reading
	body := strings.Repeat("x", 1<<20)
	for sizeOf(t, d.Path()+"-wal") < 2*walLimit {
		write(t, d, "INSERT OR REPLACE INTO numbers (id, name, n) VALUES (1, ?, 1)", body)
	}
	h, err := d.Health(t.Context())
	if err != nil || h.LongestRead != "count slowly" || h.LongestReadFor <= 0 || h.WALBytes < 2*walLimit {
		t.Errorf("health is %+v, %v", h, err)
	}
	close(enough)
	wg.Wait()
	for range 100 {
		write(t, d, "INSERT OR REPLACE INTO numbers (id, name, n) VALUES (1, 'x', 1)")
	}
	if size := sizeOf(t, d.Path()+"-wal"); size > walLimit {
		t.Errorf("the WAL still has %d MB", size>>20)
	}
}

// From 56 MB on a write waits for the gap that an open read keeps the WAL from.
func TestWrite_LargeWALWaitsForGap(t *testing.T) {
	db.WithGapPatience(t, time.Minute)
	d := openNumbers(t, db.Options{Synchronous: db.SyncNormal, Readers: 2})
	reading, enough, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		ended <- d.Read(t.Context(), "read slowly", func(rx *db.Rx) error {
			err := rx.Get(new(int), "SELECT count(*) FROM numbers")
			close(reading)
			<-enough
			return err
		})
	}()
	<-reading
	body := strings.Repeat("x", 1<<20)
	go func() {
		err := d.Write(t.Context(), "write much", func(tx *db.Tx) (err error) {
			for i := 0; i < 60 && err == nil; i++ {
				_, err = tx.Exec("INSERT INTO numbers (name, n) VALUES (?, 1)", body)
			}
			return err
		})
		if err == nil {
			err = d.Write(t.Context(), "write more", insert("more", 1))
		}
		ended <- err
	}()
	dbtest.Await(t, "the WAL is large", func() bool { return sizeOf(t, d.Path()+"-wal") > 56<<20 })
	select {
	case err := <-ended:
		t.Errorf("nobody waited for the gap: %v", err)
	case <-time.After(time.Second):
	}
	close(enough)
	for range 2 {
		if err := dbtest.Receive(t, "the end", ended); err != nil {
			t.Error(err)
		}
	}
	if restarts := d.Work().WALRestarts; restarts == 0 {
		t.Error("the WAL was never restarted")
	}
}

func TestMovesOfTheWALAndTheirFailuresAreCounted(t *testing.T) {
	d := openNumbers(t, db.Options{Synchronous: db.SyncNormal})
	body := strings.Repeat("x", 1<<20)
	add := func(megabytes int) {
		for range megabytes {
			// with nothing freed, which the care would cut the WAL for
			write(t, d, "INSERT INTO numbers (name, n) VALUES (?, 1)", body)
		}
	}
	add(1)
	if w := d.Work(); w.Checkpoints != 0 {
		t.Errorf("after 1 MB: %+v", w)
	}
	add(20)
	dbtest.Await(t, "a checkpoint", func() bool { return d.Work().Checkpoints > 0 })
	if w := d.Work(); w.CheckpointsFailed != 0 {
		t.Errorf("after 21 MB: %+v", w)
	}
	p := dbtest.Start(t, "moving", d.Path())
	p.Expect("moving")
	add(20)
	dbtest.Await(t, "a failed checkpoint", func() bool { return d.Work().CheckpointsFailed > 0 })
	p.Kill()
	before := d.Work().Checkpoints
	add(20) // the WAL may have begun anew
	dbtest.Await(t, "a checkpoint once it is gone", func() bool { return d.Work().Checkpoints > before })
}

// The writer looks before it begins, and not again before the commit starts a checkpoint.
func TestCheckpoint_ReplacedFilesAreLeftAlone(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		t.Run("FILE"+suffix, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			d, err := db.Open(t.Context(), path, db.Options{})
			must(t, err)
			write(t, d, numbers)
			must(t, d.Write(t.Context(), "add", func(tx *db.Tx) error {
				must(t, os.Rename(path+suffix, path+".old"))
				must(t, os.WriteFile(path+suffix, []byte("another file"), 0o600))
				return insert(strings.Repeat("x", 17<<20), 1)(tx)
			}))
			dbtest.Await(t, "the refusal", func() bool { return d.Work().CheckpointsFailed == 1 })
			wantRefused(t, d.Write(t.Context(), "after", insert("x", 2)), db.ErrReplaced)
			must(t, d.Close())
			got, err := os.ReadFile(path + suffix)
			if !errors.Is(err, fs.ErrNotExist) && string(got) != "another file" {
				t.Errorf("it has %d bytes, %v", len(got), err)
			}
		})
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// await looks until there is what is looked for.
func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !there() {
		select {
		case <-look.C:
		case <-end:
			t.Fatal(what + ": not within a minute")
		}
	}
}

func fill(t *testing.T, d *db.DB, megabytes int) {
	t.Helper()
	body := strings.Repeat("x", 100<<10)
	for range megabytes {
		for range 10 {
			write(t, d, "INSERT INTO numbers (name, n) VALUES (?, 1)", body)
		}
	}
}

func TestWhatADeletionFreedGoesBackToTheDisk(t *testing.T) {
	d := openNumbers(t, db.Options{Synchronous: db.SyncNormal})
	fill(t, d, 20)
	dbtest.Await(t, "the file has most of it", func() bool {
		write(t, d, "INSERT INTO numbers (name, n) VALUES ('more', 1)") // a read may have kept a checkpoint short
		return sizeOf(t, d.Path()) > 15<<20
	})
	full, err := d.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "DELETE FROM numbers WHERE id % 10 > 0")
	kept := sizeOf(t, d.Path())
	await(t, "95 % of 18 MB are given back", func() bool {
		write(t, d, "INSERT INTO numbers (name, n) VALUES ('beside', 1)") // somebody goes on writing
		kept = sizeOf(t, d.Path())
		return full.Pages*full.PageSize-kept > 18<<20*95/100
	})
	h, err := d.Health(t.Context())
	if err != nil || h.FreePages > h.Pages/2 {
		t.Errorf("health is %+v, %v", h, err)
	}
}

func TestOnlyDeletionsUseTheReserve(t *testing.T) {
	d := openNumbers(t, db.Options{Synchronous: db.SyncNormal})
	fill(t, d, 5)
	await(t, "the reserve", func() bool { there, _ := dbtest.Exists(d.Path() + "-reserve"); return there })
	if size := sizeOf(t, d.Path()+"-reserve"); size != db.ReserveBytes {
		t.Errorf("the reserve has %d bytes", size)
	}
	info, err := os.Stat(d.Path() + "-reserve")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the reserve has the mode %v (%v)", info.Mode(), err)
	}
	// A second handle finds it there.
	dbtest.OpenAt(t, d.Path(), db.Options{})
	if h, err := d.Health(t.Context()); err != nil || h.Full {
		t.Errorf("health is %+v, %v", h, err)
	}
}

func TestHealthNamesWhoWritesAndWhoWaits(t *testing.T) {
	d := openNumbers(t, db.Options{})
	writing, enough := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = d.Write(t.Context(), "write slowly", func(*db.Tx) error {
			close(writing)
			<-enough
			return nil
		})
	})
	<-writing
	wg.Go(func() { write(t, d, "INSERT INTO numbers (name, n) VALUES ('late', 1)") })
	await(t, "one waits", func() bool { return d.Waiting() == 1 })
	h, err := d.Health(t.Context())
	if err != nil || h.Writing != "write slowly" || h.Waiting != 1 || h.FileBytes == 0 || h.DiskFree == 0 {
		t.Errorf("health is %+v, %v", h, err)
	}
	close(enough)
	wg.Wait()
	if h, err := d.Health(t.Context()); err != nil || h.Writing != "" || h.Waiting != 0 {
		t.Errorf("at rest health is %+v, %v", h, err)
	}
}

func TestHealthNamesTheOtherProcessesThatRead(t *testing.T) {
	path, d := openTable(t, numbers)
	write(t, d, "INSERT INTO numbers (name, n) VALUES ('one', 1)")
	shell := exec.Command("sqlite3", "-readonly", path)
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "BEGIN; SELECT count(*) FROM numbers;")
	await(t, "the reader is seen", func() bool {
		h, err := d.Health(t.Context())
		return err == nil && slices.Contains(h.Readers, shell.Process.Pid)
	})
	_ = in.Close()
	if err := shell.Wait(); err != nil {
		t.Error(err)
	}
}

// Each has the turn when it looks whether the file is in its place; the race detector knows of no turns.
func TestAScrubLooksAtTheFileBesideTheWriter(t *testing.T) {
	d := openNumbers(t, db.Options{})
	scrubbed := make(chan error, 1)
	go func() { scrubbed <- maintenance.Scrub(t.Context(), d) }()
	for n := 0; ; n++ {
		select {
		case err := <-scrubbed:
			must(t, err)
			return
		default:
			must(t, d.Write(t.Context(), "add", insert("x", n)))
		}
	}
}
