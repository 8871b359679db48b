package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// fillDisk leaves no room on the disk.
func fillDisk(t *testing.T, folder string) {
	t.Helper()
	f, err := os.Create(filepath.Join(folder, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // of no use
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// isPlainlyFull fails the test unless err says that the disk is full, and nothing else.
func isPlainlyFull(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, db.ErrFull) || errors.Is(err, db.ErrOutcomeUnknown) || db.Hint(err) == "" {
		t.Errorf("%s on a full disk: %v (hint: %s)", what, err, db.Hint(err))
	}
}

func TestRootFullDisk_RefusedIsNotDone(t *testing.T) {
	db.WithGapPatience(t, time.Hour) // for which no read waits: no gap would let the WAL start again
	path := filepath.Join(dbtest.SmallDisk(t, "size=3m"), "a.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, numbers)
	acknowledged := 0
	for refused := 0; refused < 5; {
		err := d.Write(t.Context(), "fill", insert(strings.Repeat("x", 50_000), 1))
		if err == nil {
			acknowledged++
			continue
		}
		refused++
		isPlainlyFull(t, "a write", err)
	}
	if acknowledged < 10 {
		t.Errorf("only %d writes found room", acknowledged)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := d.Read(soon, "look", func(*db.Rx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := count(t, d, "true"); n != acknowledged {
		t.Errorf("%d rows are there of %d that were acknowledged", n, acknowledged)
	}
	ends := together(t, d, insert(strings.Repeat("x", 50_000), 1), insert(strings.Repeat("x", 50_000), 1))
	for _, end := range ends {
		if !strings.Contains(end, "disk full") || strings.Contains(end, "unknown") {
			t.Errorf("of a group one ended with %.200s", end)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	d, err = db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, d, "true"); n != acknowledged {
		t.Errorf("after opening it again %d rows are there of %d", n, acknowledged)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestRootFullDisk_EveryCallSaysSo(t *testing.T) {
	ctx := context.Background()
	for name, options := range map[string]string{"no bytes": "size=2m", "no files": "size=8m,nr_inodes=30"} {
		t.Run(name, func(t *testing.T) {
			disk := dbtest.SmallDisk(t, options)
			old := filepath.Join(disk, "old.db")
			d, err := db.Open(ctx, old, db.Options{})
			if err != nil {
				t.Fatal(err)
			}
			write(t, d, numbers)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d, err = db.Open(ctx, filepath.Join(t.TempDir(), "elsewhere.db"), db.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close() //nolint:errcheck // another disk's
			if name == "no files" {
				for i := 0; ; i++ {
					f, err := os.Create(filepath.Join(disk, fmt.Sprint(i)))
					if errors.Is(err, unix.ENOSPC) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if err := f.Close(); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				fillDisk(t, disk)
			}
			opened := func(path string, o db.Options) error {
				d, err := db.Open(ctx, path, o)
				if err == nil {
					return errors.Join(fmt.Errorf("%s was opened", path), d.Close())
				}
				return err
			}
			isPlainlyFull(t, "opening a file that is there", opened(old, db.Options{}))
			isPlainlyFull(t, "opening one to read it", opened(old, db.Options{ReadOnly: true}))
			isPlainlyFull(t, "making one", opened(filepath.Join(disk, "new.db"), db.Options{}))
			isPlainlyFull(t, "making one in a new folder", opened(filepath.Join(disk, "new", "new.db"), db.Options{}))
			isPlainlyFull(t, "a backup", d.Backup(ctx, filepath.Join(disk, "copy.db")))
		})
	}
}

// A read keeps the WAL, and with it all that a deletion freed, for as long as it lasts. Nobody deletes again.
func TestRootWrite_GoesOnAfterBlockingRead(t *testing.T) {
	db.WithGapPatience(t, time.Nanosecond) // the deletion does not wait for the read
	d, err := db.Open(t.Context(), fullDisk(t, dbtest.SmallDisk(t, "size=24m")), db.Options{})
	must(t, err)
	defer d.Close() //nolint:errcheck // of no use
	add := func() error { return d.Write(t.Context(), "add", insert("more", 1)) }
	reading, enough := make(chan struct{}), make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		err := d.Read(t.Context(), "read long", func(rx *db.Rx) error {
			var n int64
			err := rx.Get(&n, "SELECT count(*) FROM numbers")
			close(reading)
			<-enough
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-reading
	must(t, d.Reclaim(t.Context(), "delete",
		func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM numbers"); return err }))
	isPlainlyFull(t, "a write", add())
	await(t, "what can be given back is", d.Resting)
	close(enough)
	over.Wait()
	await(t, "writing goes on", func() bool { return add() == nil })
}

func TestRootFullDisk_EmptiedByDeleting(t *testing.T) {
	dbtest.OnDisks(t, "24m", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "full.db")
		d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
		write(t, d, "CREATE TABLE numbers (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)")
		body := strings.Repeat("x", 20<<10)
		add := func() error {
			return d.Write(t.Context(), "add", func(tx *db.Tx) error {
				_, err := tx.Exec("INSERT INTO numbers (name, n) VALUES (?, 1)", body)
				return err
			})
		}
		// The reserve is made when the file is large enough.
		for there := false; !there; {
			if err := add(); err != nil {
				t.Fatal(err)
			}
			var err error
			if there, err = dbtest.Exists(path + "-reserve"); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for err == nil {
			err = add()
		}
		if !errors.Is(err, db.ErrFull) || errors.Is(err, db.ErrOutcomeUnknown) {
			t.Fatalf("on a full disk a write says %v", err)
		}
		// Others fill what is left, as they do.
		rest, _ := os.Create(filepath.Join(dir, "rest"))
		_, _ = rest.Write(make([]byte, 24<<20))
		_ = rest.Close()
		before := count(t, d, "true")
		for left := before; left > before/10; left = count(t, d, "true") {
			err := d.Reclaim(t.Context(), "delete", func(tx *db.Tx) error {
				_, err := tx.Exec("DELETE FROM numbers WHERE id IN (SELECT id FROM numbers LIMIT 50)")
				return err
			})
			if err != nil {
				t.Fatalf("with %d of %d rows left, deleting says %v", left, before, err)
			}
		}
		await(t, "writing goes on", func() bool { return add() == nil })
		await(t, "the file is small", func() bool { return sizeOf(t, path)+sizeOf(t, path+"-wal") < 8<<20 })
	})
}

// onFullDisk opens a file that has used all of its disk, and empties its reserve by a deletion that
// frees little.
func onFullDisk(t *testing.T) (d, other *db.DB) {
	t.Helper()
	path := fullDisk(t, dbtest.SmallDisk(t, "size=24m"))
	d, other = dbtest.OpenAt(t, path, db.Options{}), dbtest.OpenAt(t, path, db.Options{})
	must(t, d.Reclaim(t.Context(), "delete",
		func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM numbers WHERE n = 1"); return err }))
	if size := sizeOf(t, path+"-reserve"); size != 0 {
		t.Fatalf("the reserve has %d bytes", size)
	}
	return d, other
}

func TestRootReserve_EveryHandleSeesItsUse(t *testing.T) {
	d, other := onFullDisk(t)
	for range 3 {
		isPlainlyFull(t, "a write", d.Write(t.Context(), "add", insert("more", 1)))
		isPlainlyFull(t, "another handle's write", other.Write(t.Context(), "add", insert("more", 1)))
	}
	must(t, other.Reclaim(t.Context(), "delete",
		func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM numbers"); return err }))
	must(t, d.Write(t.Context(), "add", insert("more", 1)))
	if size := sizeOf(t, d.Path()+"-reserve"); size != db.ReserveBytes {
		t.Errorf("the reserve has %d bytes", size)
	}
}

func TestRootWriteEnd_LeavesRoomForDeletions(t *testing.T) {
	d, other := onFullDisk(t)
	end := func(size int) error {
		return other.WriteEnd(t.Context(), "end", insert(strings.Repeat("x", size), 9999))
	}
	must(t, end(1000))
	isPlainlyFull(t, "a large end", end(1<<20))
	var err error
	ended := 1
	for ; err == nil && ended < 1000; ended++ {
		err = end(100_000)
	}
	isPlainlyFull(t, "the last end", err)
	if n := count(t, d, "n = 9999"); n != ended-1 {
		t.Errorf("%d ends are there of %d", n, ended-1)
	}
	must(t, d.Reclaim(t.Context(), "delete",
		func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM numbers"); return err }))
	must(t, d.Write(t.Context(), "add", insert("more", 1)))
}

// A long append leaves the writer with the pace of small ones, at which it looks at the WAL seldom.
func TestRootGiveBack_NeverFillsTheDisk(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"12m", "24m", "48m"} {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			dbtest.OnDisks(t, size, func(t *testing.T, dir string) {
				path := filepath.Join(dir, "full.db")
				t.Cleanup(func() { dbtest.Check(t, path) })
				d := dbtest.OpenAt(t, path, db.Options{})
				write(t, d, numbers)
				whole := dbtest.FreeFor(t, path)
				for n := 0; dbtest.FreeFor(t, path) > min(whole/6, db.ReserveBytes)+whole/16; n++ {
					must(t, d.Write(t.Context(), "add", insert(strings.Repeat("x", 20<<10), n)))
				}
				for range 64 {
					must(t, d.Write(t.Context(), "add", insert("x", 1)))
				}
				before := dbtest.FreeFor(t, path)
				least := dbtest.LeastFreeFor(t, path)
				must(t, d.Reclaim(t.Context(), "delete", func(tx *db.Tx) error {
					_, err := tx.Exec("DELETE FROM numbers WHERE id % 6 > 0")
					return err
				}))
				await(t, "half of the disk is free", func() bool { return dbtest.FreeFor(t, path) > whole/2 })
				if least := least(); least < before/2 {
					t.Errorf("of %d KB that were free, %d were left meanwhile", before>>10, least>>10)
				}
				must(t, d.Write(t.Context(), "add", insert(strings.Repeat("x", 20<<10), 1)))
			})
		})
	}
}

// fullDisk gives the path of a closed file, with bodies in it and its reserve beside it, on a disk
// that others have filled to the last byte.
func fullDisk(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "full.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	write(t, d, numbers)
	body := strings.Repeat("x", 20<<10)
	there := false
	for n := 0; !there || n < 300; n++ {
		must(t, d.Write(t.Context(), "add", insert(body, n)))
		there, err = dbtest.Exists(path + "-reserve")
		must(t, err)
	}
	must(t, d.Close())
	fillDisk(t, dir)
	return path
}

func TestRootOpen_FullDiskAllowsDeletes(t *testing.T) {
	path := fullDisk(t, dbtest.SmallDisk(t, "size=24m"))
	d, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	must(t, d.Close())
	if size := sizeOf(t, path+"-reserve"); size != db.ReserveBytes {
		t.Errorf("once it is closed the reserve has %d bytes", size)
	}
	d, err = db.Open(t.Context(), path, db.Options{})
	must(t, err)
	defer d.Close() //nolint:errcheck // it was checked
	isPlainlyFull(t, "a write", d.Write(t.Context(), "add", insert("more", 1)))
	must(t, d.Reclaim(t.Context(), "delete",
		func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM numbers WHERE n > 10"); return err }))
	must(t, maintenance.GiveBack(t.Context(), d))
	if size := sizeOf(t, path); size > 2<<20 {
		t.Errorf("the file still has %d bytes", size)
	}
}

func TestRootFullDisk_UnopenedFileKeepsReserve(t *testing.T) {
	dir := dbtest.SmallDisk(t, "size=24m")
	path := fullDisk(t, dir)
	must(t, os.Remove(filepath.Join(dir, "filler")))
	d, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	write(t, d, "UPDATE selvedge_file SET min_writer = 1000")
	must(t, d.Close())
	fillDisk(t, dir)
	if _, err := db.Open(t.Context(), path, db.Options{}); !errors.Is(err, db.ErrSchemaTooNew) {
		t.Fatalf("the error is %v", err)
	}
	if size := sizeOf(t, path+"-reserve"); size != db.ReserveBytes {
		t.Errorf("the reserve has %d bytes", size)
	}
}
