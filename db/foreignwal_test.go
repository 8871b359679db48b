package db_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// closed makes a file with some numbers and closes it.
func closed(t *testing.T) (path string) {
	t.Helper()
	path = dbtest.Path(t)
	change(t, path, numbers, "INSERT INTO numbers (name, n) VALUES ('first', 0)")
	return path
}

// change opens the file, runs the statements, each in a transaction, and closes it.
func change(t *testing.T, path string, statements ...string) {
	t.Helper()
	d, err := db.Open(t.Context(), path, db.Options{})
	must(t, err)
	for _, s := range statements {
		write(t, d, s)
	}
	must(t, d.Close())
}

// copyFile is cp: what lies at to keeps its inode. Another process does it, since closing the file
// drops this one's locks on it.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// leaveWAL writes to the file in a process that is killed.
func leaveWAL(t *testing.T, path string) { leaveWALAfter(t, path, func() {}) }

// leaveWALAfter is leaveWAL with something that happens in the middle of it.
func leaveWALAfter(t *testing.T, path string, half func()) {
	t.Helper()
	p := dbtest.Start(t, "stepper", path, "killed")
	for n := range 20 {
		if n == 10 {
			half()
		}
		p.Send("go on")
		p.Expect(fmt.Sprint(n))
	}
	p.Kill()
}

// fates are what becomes of a WAL before its program is killed: modes of PRAGMA wal_checkpoint
// behind which it begins anew.
var fates = []string{"none", "PASSIVE", "TRUNCATE"}

// moveWAL moves the WAL into the file.
func moveWAL(t *testing.T, path, mode string) {
	t.Helper()
	if mode == "none" {
		return
	}
	move, end := checkpoints(t, path)
	must(t, move(mode))
	end()
}

// contents are the bytes of every file of a folder, by name.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	all := map[string][]byte{}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// copies are ways to a copy of a file that lies in its place later. Each gives the copy's path; the
// file is at rest before and after.
var copies = map[string]func(t *testing.T, path, to string){
	"the file at rest": copyFile,
	"the file as it was long ago": func(t *testing.T, path, to string) {
		copyFile(t, path, to)
		change(t, path, "INSERT INTO numbers (name, n) VALUES ('later', 1)")
		change(t, path, "INSERT INTO numbers (name, n) VALUES ('later', 2)")
	},
	"a backup": func(t *testing.T, path, to string) {
		d := dbtest.OpenAt(t, path, db.Options{})
		must(t, d.Backup(t.Context(), to))
		must(t, d.Close())
	},
	"a backup that was opened": func(t *testing.T, path, to string) {
		d := dbtest.OpenAt(t, path, db.Options{})
		must(t, d.Backup(t.Context(), to))
		must(t, d.Close())
		change(t, to, "INSERT INTO numbers (name, n) VALUES ('of the copy', 1)")
	},
	"a copy by VACUUM INTO": func(t *testing.T, path, to string) {
		fromOutside(t, path, "VACUUM INTO '"+to+"'")
	},
}

// puttings are ways to put a copy into the place of a file.
var puttings = map[string]func(t *testing.T, from, to string){
	"cp": copyFile,
	"mv": func(t *testing.T, from, to string) { must(t, os.Rename(from, to)) },
}

func TestOpen_ForeignWALIsRefused(t *testing.T) {
	for what, copied := range copies {
		for _, fate := range fates {
			for how, put := range puttings {
				t.Run(what+"/"+fate+"/"+how, func(t *testing.T) { refusesForeignWAL(t, copied, fate, put) })
			}
		}
	}
}

func refusesForeignWAL(t *testing.T, copied func(t *testing.T, path, to string), fate string,
	put func(t *testing.T, from, to string),
) {
	path := closed(t)
	dir := filepath.Dir(path)
	other := filepath.Join(t.TempDir(), "copy.db")
	copied(t, path, other)
	leaveWALAfter(t, path, func() { moveWAL(t, path, fate) })
	want, err := os.ReadFile(other)
	must(t, err)
	put(t, other, path)
	before := contents(t, dir)

	for _, o := range []db.Options{{}, {ReadOnly: true}, {KeepSchema: true, MustExist: true}} {
		d, err := db.Open(t.Context(), path, o)
		wantForeignWAL(t, path, err)
		if err == nil {
			must(t, d.Close())
		}
	}
	_, err = maintenance.Salvage(t.Context(), path, filepath.Join(dir, "salvaged.db"),
		maintenance.SalvageOptions{})
	wantForeignWAL(t, path, err)
	_, err = maintenance.Compact(t.Context(), path, db.Options{})
	wantForeignWAL(t, path, err)
	_, err = maintenance.Restore(t.Context(), path, filepath.Join(dir, "restored.db"), db.Options{})
	wantForeignWAL(t, path, err)
	wantUnchanged(t, dir, before)

	must(t, os.Rename(path+"-wal", path+"-wal.old"))
	d := dbtest.OpenAt(t, path, db.Options{ReadOnly: true})
	if n := count(t, d, "name = 'killed'"); n != 0 {
		t.Errorf("%d rows of the killed program are there", n)
	}
	must(t, d.Close())
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, want) {
		t.Errorf("the copy was changed (%v)", err)
	}
}

func wantForeignWAL(t *testing.T, path string, err error) {
	t.Helper()
	wantRefused(t, err, db.ErrReplaced)
	if err != nil && !strings.Contains(err.Error(), path+"-wal") {
		t.Errorf("it does not say what lies there: %v", err)
	}
}

// wantUnchanged fails the test where a file of the folder has come, gone or changed, but for locks.
func wantUnchanged(t *testing.T, dir string, before map[string][]byte) {
	t.Helper()
	after := contents(t, dir)
	for name, data := range after {
		if was, there := before[name]; (!there || !bytes.Equal(was, data)) && !strings.HasSuffix(name, "-lock") {
			t.Errorf("%s was made or changed", name)
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			t.Errorf("%s is gone", name)
		}
	}
}

func TestOpen_WALWithoutItsFileIsRefused(t *testing.T) {
	path := closed(t)
	leaveWAL(t, path)
	away := filepath.Join(t.TempDir(), "away.db")
	must(t, os.Rename(path, away))
	before := contents(t, filepath.Dir(path))
	_, err := db.Open(t.Context(), path, db.Options{})
	wantForeignWAL(t, path, err)
	must(t, os.WriteFile(path, nil, 0o600)) // touch
	before[filepath.Base(path)] = nil
	_, err = db.Open(t.Context(), path, db.Options{})
	wantForeignWAL(t, path, err)
	wantUnchanged(t, filepath.Dir(path), before)
	must(t, os.Rename(away, path))
	wantKilled(t, path)
}

// wantKilled fails the test where the file lacks a row of leaveWAL.
func wantKilled(t *testing.T, path string) {
	t.Helper()
	d := dbtest.OpenAt(t, path, db.Options{})
	if n := count(t, d, "name = 'killed'"); n != 20 {
		t.Errorf("%d of 20 rows are there", n)
	}
}

func TestOpen_CopyWithItsWALOpens(t *testing.T) {
	path := closed(t)
	leaveWAL(t, path)
	dir := t.TempDir()
	for _, name := range []string{filepath.Base(path), "other.db"} {
		copyFile(t, path, filepath.Join(dir, name))
		copyFile(t, path+"-wal", filepath.Join(dir, name+"-wal"))
		wantKilled(t, filepath.Join(dir, name))
		dbtest.Check(t, filepath.Join(dir, name))
	}
	for _, suffix := range []string{"", "-wal"} { // over what lies there, and back
		copyFile(t, path+suffix, filepath.Join(dir, "kept.db"+suffix))
	}
	must(t, os.Remove(path+"-wal"))
	for _, suffix := range []string{"", "-wal"} {
		copyFile(t, filepath.Join(dir, "kept.db"+suffix), path+suffix)
	}
	wantKilled(t, path)
}

// A program that knows nothing of the number leaves a WAL without one.
func TestOpen_WALOfAnotherProgramIsRecovered(t *testing.T) {
	for name, script := range map[string]string{
		"few pages": "INSERT INTO numbers (name, n) VALUES ('foreign', 1)",
		"a larger file": "INSERT INTO numbers (name, n) VALUES ('foreign', 1); CREATE TABLE " +
			"more AS SELECT randomblob(100000) AS x",
		"the file's own number": "PRAGMA user_version = 7; INSERT INTO numbers (name, n) VALUES " +
			"('foreign', 1)",
		"as a failed commit was settled": "PRAGMA user_version = 1; INSERT INTO numbers (name, n) VALUES " +
			"('foreign', 1)",
	} {
		t.Run(name, func(t *testing.T) {
			path := closed(t)
			first := "PRAGMA user_version = 0"
			if name == "the file's own number" {
				first = "PRAGMA user_version = 7"
			}
			fromOutside(t, path, first)
			pool, err := sql.Open("sqlite", "file:"+path)
			must(t, err)
			defer pool.Close() //nolint:errcheck // a test
			pool.SetMaxOpenConns(1)
			for s := range strings.SplitSeq(script, "; ") {
				_, err := pool.Exec(s)
				must(t, err)
			}
			copied := filepath.Join(t.TempDir(), "killed.db")
			copyFile(t, path, copied)
			copyFile(t, path+"-wal", copied+"-wal")
			d := dbtest.OpenAt(t, copied, db.Options{})
			if n := count(t, d, "name = 'foreign'"); n != 1 {
				t.Errorf("%d rows are there", n)
			}
		})
	}
}

// What is left of a WAL that holds no commit is nobody's.
func TestOpen_EmptyWALHarmsNobody(t *testing.T) {
	path := closed(t)
	backup := filepath.Join(t.TempDir(), "copy.db")
	copies["a backup"](t, path, backup)
	leaveWAL(t, path)
	whole, err := os.ReadFile(path + "-wal")
	must(t, err)
	for _, left := range [][]byte{nil, whole[:20], whole[:32], whole[:100], make([]byte, len(whole))} {
		copyFile(t, backup, path)
		must(t, os.WriteFile(path+"-wal", left, 0o600))
		d := dbtest.OpenAt(t, path, db.Options{})
		if n := count(t, d, "name = 'killed'"); n != 0 {
			t.Errorf("%d rows of the killed program are there", n)
		}
		must(t, d.Close())
	}
}

func TestRestore_ForeignWALGoesAside(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("without the file: ", gone), func(t *testing.T) {
			path := closed(t)
			backup, laid := filepath.Join(t.TempDir(), "copy.db"), filepath.Join(t.TempDir(), "laid.db")
			copies["a backup"](t, path, backup)
			change(t, path, "INSERT INTO numbers (name, n) VALUES ('later', 1)")
			copyFile(t, path, laid)
			leaveWAL(t, path)
			wal, err := os.ReadFile(path + "-wal")
			must(t, err)
			if gone {
				must(t, os.Remove(path))
			} else {
				must(t, os.Rename(laid, path))
			}
			r, err := maintenance.Restore(t.Context(), backup, path, db.Options{})
			must(t, err)
			d := dbtest.OpenAt(t, path, db.Options{})
			if n := count(t, d, "true"); n != 1 {
				t.Errorf("%d rows are there", n)
			}
			if must(t, d.Close()); gone { // the next restore keeps a file, but under another name
				_, err := maintenance.Restore(t.Context(), backup, path, db.Options{})
				must(t, err)
			}
			aside := path + ".before-restore-wal"
			if now, err := os.ReadFile(aside); err != nil || !bytes.Equal(now, wal) {
				t.Errorf("the -wal is not aside as it was (%v)", err)
			}
			if gone {
				return
			}
			_, err = db.Open(t.Context(), r.Kept, db.Options{})
			wantForeignWAL(t, r.Kept, err)
		})
	}
}

// checkpoints gives a function that moves the WAL into the file, as PRAGMA wal_checkpoint does in a
// mode, and one that ends it.
func checkpoints(t *testing.T, path string) (move func(mode string) error, end func()) {
	t.Helper()
	pool, err := sql.Open("sqlite", "file:"+path+"?_busy_timeout=10000")
	must(t, err)
	move = func(mode string) error {
		_, err := pool.Exec("PRAGMA wal_checkpoint(" + mode + ")")
		return err
	}
	return move, func() { must(t, pool.Close()) }
}

// A program that has the file open begins the WAL anew, again and again, beside programs that open it.
func TestOpen_LiveWALIsNeverForeign(t *testing.T) {
	path, d := openTable(t, numbers)
	move, end := checkpoints(t, path)
	defer end()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			err := insertNumber(d, "live", n)
			if err == nil {
				err = move([]string{"TRUNCATE", "RESTART", "PASSIVE"}[n%3])
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 300 {
		other, err := db.Open(t.Context(), path, db.Options{ReadOnly: true})
		if err != nil {
			t.Error(err)
			break
		}
		must(t, other.Close())
	}
	close(stop)
	must(t, <-done)
}

// A copy of the file and its WAL opens, whatever the program that had them open had just done.
func TestOpen_CopyAtAnyMomentOpens(t *testing.T) {
	path, d := openTable(t, numbers)
	move, end := checkpoints(t, path)
	defer end()
	copied := filepath.Join(t.TempDir(), "copy.db")
	for n := range 16 {
		switch n % 4 {
		case 0:
			must(t, insertNumber(d, "live", n))
		case 1:
			must(t, move([]string{"TRUNCATE", "RESTART", "PASSIVE", "FULL"}[n/4]))
		case 2: // more than the page cache holds, and undone
			if err := d.Write(t.Context(), "fail", func(tx *db.Tx) error {
				return errors.Join(insertMany(tx), fs.ErrInvalid)
			}); !errors.Is(err, fs.ErrInvalid) {
				t.Fatal(err)
			}
		case 3:
			must(t, d.Write(t.Context(), "many", insertMany))
		}
		for _, suffix := range []string{"", "-wal"} {
			copyFile(t, path+suffix, copied+suffix)
		}
		want := count(t, d, "true")
		c, err := db.Open(t.Context(), copied, db.Options{})
		must(t, err)
		if got := count(t, c, "true"); got != want {
			t.Errorf("after step %d the copy has %d rows of %d", n, got, want)
		}
		must(t, c.Close())
	}
}

// The transaction that raises the counter of epochs again, after one that drew an epoch was undone, may be
// the first in the WAL. It gives the WAL a number too, so the WAL is known for another file's.
func TestOpen_WALAfterUndoneEpochIsForeignElsewhere(t *testing.T) {
	path, d := openTable(t, numbers)
	move, end := checkpoints(t, path)
	defer end()
	must(t, insertNumber(d, "live", 0))
	must(t, move("TRUNCATE"))
	other := filepath.Join(t.TempDir(), "older.db")
	copyFile(t, path, other)
	must(t, insertNumber(d, "live", 1))
	must(t, move("TRUNCATE"))
	if err := d.Write(t.Context(), "fail", func(tx *db.Tx) error {
		_, err := d.ReserveTx(tx, "port", "80", db.ReserveOptions{})
		return errors.Join(err, fs.ErrInvalid)
	}); !errors.Is(err, fs.ErrInvalid) {
		t.Fatal(err)
	}
	copyFile(t, path+"-wal", other+"-wal")
	if _, err := db.Open(t.Context(), other, db.Options{}); !errors.Is(err, db.ErrReplaced) {
		t.Errorf("a file beside the WAL of a newer one: %v", err)
	}
}

// insertMany adds 4 MB, which SQLite writes to the WAL before the commit.
func insertMany(tx *db.Tx) error {
	_, err := tx.Exec(`INSERT INTO numbers (name, n) WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1
	FROM c WHERE x < 2000)
SELECT hex(randomblob(1000)), x FROM c`)
	return err
}
