package db_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestOpen_DamagedFileHasAHint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "selvedge.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte(strings.Repeat("z", 64)), 100) // the root of the schema
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	for _, o := range []db.Options{{}, {ReadOnly: true}} {
		if _, err := db.Open(t.Context(), path, o); !errors.Is(err, db.ErrCorrupt) ||
			!strings.Contains(db.Hint(err), "backup") {
			t.Errorf("%+v: %v, with the hint %q", o, err, db.Hint(err))
		}
	}
}

// shortDir is a folder whose path is short, whatever TMPDIR is.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestOpen_PathTooLongCreatesNothing(t *testing.T) {
	refused := 0
	for _, length := range []int{200, 480, 496, 500, 503, 504, 505, 512, 600, 1200} {
		dir := shortDir(t)
		path := dir
		for len(path) < length-110 {
			path += "/" + strings.Repeat("d", 100)
		}
		path += "/" + strings.Repeat("f", max(1, length-len(path)-1))
		d, err := db.Open(t.Context(), path, db.Options{})
		if err == nil {
			claim(t, d)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		refused++
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "too long") || db.Hint(err) == "" {
			t.Errorf("%d bytes: %v", length, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%d bytes: %v was made (%v)", length, entries, err)
		}
	}
	if refused < 4 || refused > 6 {
		t.Errorf("%d of 10 lengths were refused", refused)
	}
	for length, ok := range map[int]bool{247: true, 248: false, 255: false} {
		d, err := db.Open(t.Context(), filepath.Join(shortDir(t), strings.Repeat("n", length)), db.Options{})
		if err == nil {
			claim(t, d)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		if (err == nil) != ok || err != nil && !errors.Is(err, db.ErrInvalid) {
			t.Errorf("a name of %d bytes: %v", length, err)
		}
	}
}

func TestOpen_UnwritableFileIsRefusedForWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Open(t.Context(), path, db.Options{}); !errors.Is(err, fs.ErrPermission) ||
		!strings.Contains(db.Hint(err), "ReadOnly") {
		t.Errorf("the error is %v", err)
	}
	dbtest.OpenAt(t, path, db.Options{ReadOnly: true})
}

// putTornBirth makes what a power cut leaves of a first transaction with a rollback journal: the
// journal, which says that there was nothing, and a page of which the first sector is missing.
func putTornBirth(t *testing.T, path string) {
	t.Helper()
	journal := make([]byte, 512)
	copy(journal, "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
	binary.BigEndian.PutUint32(journal[8:], 0)
	binary.BigEndian.PutUint32(journal[12:], 7)
	binary.BigEndian.PutUint32(journal[16:], 0)
	binary.BigEndian.PutUint32(journal[20:], 512)
	binary.BigEndian.PutUint32(journal[24:], 4096)
	page := make([]byte, 4096)
	for i := 512; i < len(page); i++ {
		page[i] = 'x'
	}
	for name, data := range map[string][]byte{path: page, path + "-journal": journal} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABirthThatWasCutShortIsFinished(t *testing.T) {
	for name, put := range map[string]func(*testing.T, string){"empty": putText(""), "torn": putTornBirth} {
		t.Run(name, func(t *testing.T) {
			path := dbtest.Path(t)
			put(t, path)
			if err := os.Chmod(path, 0o640); err != nil {
				t.Fatal(err)
			}
			_, err := db.Open(t.Context(), path, db.Options{ReadOnly: true})
			if !errors.Is(err, db.ErrNotADatabase) || !strings.Contains(db.Hint(err), "up") {
				t.Errorf("to read: %v", err)
			}
			claim(t, dbtest.OpenAt(t, path, db.Options{}))
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("its mode is %v (%v)", info.Mode(), err)
			}
		})
	}
}

func TestOpen_FinishesBirthKilledBeforeWAL(t *testing.T) {
	dir := t.TempDir()
	from, path := filepath.Join(dir, "from.db"), filepath.Join(dir, "half.db")
	d := dbtest.Open(t, db.Options{})
	if err := d.Backup(t.Context(), from); err != nil { // not in WAL mode
		t.Fatal(err)
	}
	pool, err := sql.Open("sqlite", "file:"+from)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close() //nolint:errcheck // what matters has failed before
	pool.SetMaxOpenConns(1)
	if _, err := pool.Exec("PRAGMA cache_size=10; BEGIN IMMEDIATE; UPDATE scopes SET name = 'half'; CREATE " +
		"TABLE junk AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000) SELECT x, " +
		"hex(randomblob(50)) AS h FROM c"); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-journal"} {
		data, err := os.ReadFile(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		putText(string(data))(t, path+suffix)
	}
	_, err = db.Open(t.Context(), path, db.Options{ReadOnly: true, AnySchema: true})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(db.Hint(err), "for writing") {
		t.Errorf("to read: %v", err)
	}
	d = dbtest.OpenAt(t, path, db.Options{})
	if got := one[int](t, d, "SELECT count(*) FROM scopes WHERE name = 'half'"); got != 0 {
		t.Error("what was not committed is there")
	}
}

func TestOpen_DanglingLinkCreatesItsTarget(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink("target.db", link); err != nil {
		t.Fatal(err)
	}
	d := dbtest.OpenAt(t, link, db.Options{})
	if real, err := filepath.EvalSymlinks(target); err != nil || d.Path() != real {
		t.Errorf("the file is %s (%v)", d.Path(), err)
	}
}

// bearer opens a path with as much room as its files may take.
func bearer(args []string) error {
	var limit syscall.Rlimit
	limit.Cur, limit.Max = 16<<10, 1<<40
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if d, err := db.Open(context.Background(), args[0], db.Options{}); err == nil {
		return errors.Join(errors.New("there was room"), d.Close())
	}
	return nil
}

func TestABirthWithoutRoomLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	dbtest.Start(t, "bearer", path).Wait()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "a.db-lock" {
			t.Errorf("%s was left", e.Name())
		}
	}
	claim(t, dbtest.OpenAt(t, path, db.Options{}))
}

// atRest makes a file that nobody has open in a folder that only root may write.
func atRest(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test needs another user: run it as root")
	}
	dir, err := os.MkdirTemp("/tmp", "selvedge-rest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "a.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, "INSERT INTO scopes (name) VALUES ('there')")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0o644} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// stranger gives up root, reads the file at each line and says what it saw.
func stranger(args []string) error {
	if err := syscall.Setgid(65534); err != nil {
		return err
	}
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	d, err := db.Open(context.Background(), args[0], db.Options{ReadOnly: true})
	if err != nil {
		fmt.Println("refused:", errors.Is(err, fs.ErrPermission), db.Hint(err) != "")
		return nil
	}
	fmt.Println("open")
	err = eachLine(func(string) error {
		var n int
		err := d.Read(context.Background(), "count",
			func(rx *db.Rx) error { return rx.Get(&n, "SELECT count(*) FROM scopes") })
		switch {
		case errors.Is(err, db.ErrBusy):
			fmt.Println("busy")
		case err != nil:
			return err
		default:
			fmt.Println("rows", n)
		}
		return nil
	})
	return errors.Join(err, d.Close())
}

func TestRootOpen_OtherUserReadsFileAtRest(t *testing.T) {
	path := atRest(t)
	p := dbtest.Start(t, "stranger", path)
	p.Expect("open")
	p.Send("look")
	p.Expect("rows 2")

	// Once somebody writes the file, it says so: it would not see it.
	d := dbtest.OpenAt(t, path, db.Options{})
	claim(t, d)
	p.Send("look")
	p.Expect("busy")

	live := dbtest.Start(t, "stranger", path)
	live.Expect("open")
	live.Send("look")
	live.Expect("rows 2")
}

func TestRootOpen_OtherUserSeesKilledWriter(t *testing.T) {
	path := atRest(t)
	p := dbtest.Start(t, "opened", path)
	p.Expect("open")
	p.Kill()
	killed := dbtest.Start(t, "stranger", path)
	killed.Expect("open") // the -wal can be read
	killed.Send("look")
	killed.Expect("rows 2")
	if err := os.Remove(path + "-shm"); err != nil { // as after a crash of the machine, or a copy
		t.Fatal(err)
	}
	q := dbtest.Start(t, "stranger", path)
	q.Expect("refused: true true")
	claim(t, dbtest.OpenAt(t, path, db.Options{}))
}

// opened writes to a file and keeps it open.
func opened(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	if err := d.Write(context.Background(), "claim",
		func(tx *db.Tx) error { _, err := tx.Store().Owner(); return err }); err != nil {
		return err
	}
	fmt.Println("open")
	return eachLine(func(string) error { return nil })
}
