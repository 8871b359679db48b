package db_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/sqlite"
	"selvedge/internal/stores"
	"selvedge/test/dbtest"
)

// openTable makes a file with a table and gives its path.
func openTable(t *testing.T, statements ...string) (string, *db.DB) {
	t.Helper()
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	for _, s := range statements {
		write(t, d, s)
	}
	return path, d
}

func TestProcessesTakeTurns(t *testing.T) {
	const processes, each = 4, 200
	path, d := openTable(t, numbers)
	all := make([]*dbtest.Process, processes)
	for i := range all {
		all[i] = dbtest.Start(t, "appender", path, fmt.Sprint("p", i), fmt.Sprint(each))
	}
	foreign := make(chan error, 1)
	go func() { foreign <- foreignWrites(path, 20) }() // a program that does not know our queue
	for i := range each {
		if err := d.Write(t.Context(), "own", insert("own", i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all {
		p.Wait()
	}
	if err := <-foreign; err != nil {
		t.Error(err)
	}
	if n := count(t, d, "name <> 'foreign'"); n != (processes+1)*each {
		t.Errorf("%d of %d rows are there", n, (processes+1)*each)
	}
}

// foreignWrites writes rows with the real sqlite3.
func foreignWrites(path string, n int) error {
	for i := range n {
		script := fmt.Sprintf(".timeout 10000\nINSERT INTO numbers (name, n) VALUES ('foreign', %d);", i)
		cmd := exec.Command("sqlite3", path)
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("sqlite3 (Debian: apt-get install sqlite3): %w: %s", err, out)
		}
	}
	return nil
}

func TestWhatWasAcknowledgedSurvivesKill(t *testing.T) {
	path, d := openTable(t, numbers)
	for round := range 10 {
		name := fmt.Sprint("round ", round)
		p := dbtest.Start(t, "appender", path, name, "1000000")
		last := -1
		for range 1 + round*7 {
			line, ok := p.Line()
			if !ok {
				t.Fatal("the process ended")
			}
			n, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			last = n
		}
		p.Kill()
		if n := count(t, d, fmt.Sprintf("name = '%s' AND n <= %d", name, last)); n != last+1 {
			t.Errorf("%s: %d of %d acknowledged rows are there", name, n, last+1)
		}
		write(t, d, "INSERT INTO numbers (name, n) VALUES ('between', ?)", round)
	}
}

func TestACallerBehindAnotherProcessMayLeave(t *testing.T) {
	path, d := openTable(t, numbers)
	p := dbtest.Start(t, "waiting", path)
	p.Expect("writing")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := d.Write(ctx, "blocked", insert("no", 1))
	if !errors.Is(err, db.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it left with %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- d.Write(context.Background(), "patient", insert("yes", 1)) }()
	p.Send("go on")
	if err := <-done; err != nil {
		t.Error(err)
	}
	p.Wait()
	if n := count(t, d, "true"); n != 1 {
		t.Errorf("%d rows are there", n)
	}
}

func TestClose_DoesNotWaitForOtherProcess(t *testing.T) {
	path, d := openTable(t, numbers)
	p := dbtest.Start(t, "waiting", path)
	p.Expect("writing")
	p.Signal(syscall.SIGSTOP) // it holds the lock and will not give it back
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := d.Write(ctx, "blocked", insert("no", 1)); !errors.Is(err, db.ErrBusy) {
		t.Errorf("it left with %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	p.Kill()
}

const claims = "CREATE TABLE claims (owner_id INTEGER NOT NULL REFERENCES owners (id)) STRICT"

func alive(t *testing.T, d *db.DB, id int64) bool {
	t.Helper()
	var yes bool
	err := d.Read(context.Background(), "alive", func(rx *db.Rx) error {
		var err error
		yes, err = rx.Store().OwnerAlive(id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

func startOwner(t *testing.T, path string) (*dbtest.Process, int64) {
	t.Helper()
	p := dbtest.Start(t, "owner", path)
	line, _ := p.Line()
	id, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return p, id
}

func TestAnOwnerIsAliveUntilItsProcessDies(t *testing.T) {
	path, d := openTable(t, claims)
	p, id := startOwner(t, path)
	if !alive(t, d, id) {
		t.Error("it is dead while it runs")
	}
	p.Signal(syscall.SIGSTOP)
	if !alive(t, d, id) {
		t.Error("it is dead while it is stopped")
	}
	p.Kill()
	if alive(t, d, id) {
		t.Error("it is alive after SIGKILL")
	}
}

func TestOwner_RowGoesWhenUnreferenced(t *testing.T) {
	path, d := openTable(t, claims)
	p, id := startOwner(t, path)
	forget := func() int {
		t.Helper()
		if err := d.Write(t.Context(), "forget",
			func(tx *db.Tx) error { return tx.Store().ForgetDeadOwners() }); err != nil {
			t.Fatal(err)
		}
		return ownerRows(t, d, id)
	}
	if forget() != 1 {
		t.Error("a living process was forgotten")
	}
	p.Kill()
	if forget() != 1 {
		t.Error("a process with a claim was forgotten")
	}
	write(t, d, "DELETE FROM claims")
	if forget() != 0 {
		t.Error("a dead process without claims is still there")
	}
}

// Each call looks at some, so that the writer is not kept by all of a file's dead.
func TestOwnersAreForgottenAFewAtATime(t *testing.T) {
	_, d := openTable(t, claims)
	before := sqlite.OwnersAtOnce
	sqlite.OwnersAtOnce = 2
	t.Cleanup(func() { sqlite.OwnersAtOnce = before })
	for i := range 5 {
		write(t, d, "INSERT INTO owners (id, token, pid, program, registered_at) VALUES (?, ?, 1, 'dead', 0)",
			100+i, fmt.Appendf(nil, "%016d", i))
	}
	for _, want := range []int{3, 1, 0} {
		must(t, d.Write(t.Context(), "forget", func(tx *db.Tx) error { return tx.Store().ForgetDeadOwners() }))
		var left int
		must(t, d.Read(t.Context(), "count",
			func(rx *db.Rx) error { return rx.Get(&left, "SELECT count(*) FROM owners") }))
		if left != want {
			t.Errorf("%d owners are left, not %d", left, want)
		}
	}
}

// A program that lives for one call must not look at the same owners as the one before it.
func TestOwners_ShortHandlesForgetAllDead(t *testing.T) {
	path, d := openTable(t, claims)
	before := sqlite.OwnersAtOnce
	sqlite.OwnersAtOnce = 2
	t.Cleanup(func() { sqlite.OwnersAtOnce = before })
	for id := range 3 {
		write(t, d, "INSERT INTO owners (id, token, pid, program, registered_at) VALUES (?, ?, 1, 'dead', 0)",
			100+id, fmt.Appendf(nil, "%016d", id))
	}
	write(t, d, "INSERT INTO claims VALUES (100), (101)")
	for tries := 0; ownerRows(t, d, 102) == 1; tries++ {
		if tries == 200 { // two in three look at it
			t.Fatal("no handle has come to the last one")
		}
		short, err := db.Open(t.Context(), path, db.Options{})
		must(t, err)
		must(t, short.Write(t.Context(), "forget", func(tx *db.Tx) error { return tx.Store().ForgetDeadOwners() }))
		must(t, short.Close())
	}
}

func TestAllDeadOwnersAreForgottenAtOnce(t *testing.T) {
	_, d := openTable(t, claims)
	before := sqlite.OwnersAtOnce
	sqlite.OwnersAtOnce = 2
	t.Cleanup(func() { sqlite.OwnersAtOnce = before })
	for i := range 7 {
		write(t, d, "INSERT INTO owners (id, token, pid, program, registered_at) VALUES (?, ?, 1, 'dead', 0)",
			100+i, fmt.Appendf(nil, "%016d", i))
	}
	write(t, d, "INSERT INTO claims VALUES (100), (101), (104)")
	must(t, stores.ForgetDeadOwners(t.Context(), d))
	if all := ownerRows(t, d, 100) + ownerRows(t, d, 101) + ownerRows(t, d, 104); all != 3 {
		t.Errorf("%d of 3 with claims are left", all)
	}
	write(t, d, "DELETE FROM claims")
	must(t, stores.ForgetDeadOwners(t.Context(), d))
	var left int
	must(t, d.Read(t.Context(), "count",
		func(rx *db.Rx) error { return rx.Get(&left, "SELECT count(*) FROM owners") }))
	if left != 0 {
		t.Errorf("%d owners are left", left)
	}
}

func ownerRows(t *testing.T, d *db.DB, id int64) (n int) {
	t.Helper()
	err := d.Read(context.Background(), "count", func(rx *db.Rx) error {
		return rx.Get(&n, "SELECT count(*) FROM owners WHERE id = ?", id)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnOwnersNumberIsNotGivenTwice(t *testing.T) {
	path, d := openTable(t, claims)
	no := errors.New("no")
	var undone int64
	err := d.Write(t.Context(), "undone", func(tx *db.Tx) error {
		var err error
		if undone, err = tx.Store().Owner(); err != nil {
			return err
		}
		return no
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	p, id := startOwner(t, path) // gets the number that was rolled back, and must get its lock
	if id != undone {
		t.Logf("the number was %d and is %d", undone, id)
	}
	if !alive(t, d, id) {
		t.Error("the other process is dead while it runs")
	}
	claim(t, d)
	p.Kill()
	if alive(t, d, id) {
		t.Error("the other process is alive after SIGKILL")
	}
}

func TestOwner_HandlesOfProcessOwnAlike(t *testing.T) {
	path, d := openTable(t)
	other := dbtest.OpenAt(t, path, db.Options{})
	ids := map[int64]bool{}
	for _, h := range []*db.DB{d, other} {
		if err := h.Write(t.Context(), "own", func(tx *db.Tx) error {
			id, err := tx.Store().Owner()
			ids[id] = true
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 2 {
		t.Errorf("the numbers are %v", ids)
	}
	for id := range ids {
		for _, h := range []*db.DB{d, other} {
			if err := h.Read(t.Context(), "own", func(rx *db.Rx) error {
				if own, err := rx.Store().Owns(id); err != nil || !own {
					t.Errorf("Owns says %v, %v", own, err)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTheLastHandleForgetsItsOwner(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	claim(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := ownerRows(t, dbtest.OpenAt(t, path, db.Options{}), 1); n != 0 {
		t.Error("the row is still there")
	}
}

func TestScopesAreSharedByProcesses(t *testing.T) {
	path, d := openTable(t)
	other := dbtest.OpenAt(t, path, db.Options{})
	scope := func(h *db.DB, name string) (id int64) {
		t.Helper()
		if err := h.Write(t.Context(), "scope",
			func(tx *db.Tx) (err error) { id, err = tx.Store().Scope(name); return err }); err != nil {
			t.Fatal(err)
		}
		return id
	}
	if a, b := scope(d, "home"), scope(other, "home"); a != b || a == scope(d, "") {
		t.Errorf("home is %d and %d, the default is %d", a, b, scope(d, ""))
	}
	_ = d.Write(t.Context(), "undone", func(tx *db.Tx) error {
		if _, err := tx.Store().Scope("undone"); err != nil {
			return err
		}
		return errors.New("no")
	})
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		if _, ok, err := rx.Store().Scope("undone"); ok || err != nil {
			t.Errorf("a scope that was rolled back is there: %v, %v", ok, err)
		}
		if id, ok, err := rx.Store().Scope("home"); !ok || err != nil || id != scope2(other, t) {
			t.Errorf("home is not there: %v, %v", ok, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Write(t.Context(), "long", func(tx *db.Tx) error {
		_, err := tx.Store().Scope(strings.Repeat("x", 1025))
		return err
	})
	if !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a name of 1025 bytes: %v", err)
	}
}

// scope2 reads the number of "home" through another handle.
func scope2(d *db.DB, t *testing.T) (id int64) {
	t.Helper()
	if err := d.Read(t.Context(), "scope",
		func(rx *db.Rx) (err error) { id, _, err = rx.Store().Scope("home"); return err }); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestReadersDoNotWaitForTheWriter(t *testing.T) {
	_, d := openTable(t, numbers)
	err := d.Write(t.Context(), "hold", func(tx *db.Tx) error {
		if err := insert("unseen", 1)(tx); err != nil {
			return err
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if n := count(t, d, "true"); n != 0 {
					t.Errorf("a reader sees %d uncommitted rows", n)
				}
			})
		}
		wg.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
