package dbtest

import (
	"runtime"
	"testing"

	"selvedge/db"
)

// Again makes a call whose first write transaction is undone and run a second time: a neighbour in
// its group breaks the commit, or the server refuses it.
func Again(t testing.TB, d *db.DB, call func()) {
	t.Helper()
	if onServer != nil && onServer.runs(t) {
		onServer.again(t, d, call)
		return
	}
	write := func(why string, statements ...string) error {
		return d.Write(t.Context(), why, func(tx *db.Tx) error {
			for _, statement := range statements {
				if _, err := tx.Exec(statement); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := write("prepare", `CREATE TABLE again_parents (id INTEGER PRIMARY KEY)`,
		`CREATE TABLE again_children (parent INTEGER REFERENCES again_parents (id) DEFERRABLE INITIALLY `+
			`DEFERRED)`); err != nil {
		t.Fatal(err)
	}
	release, held, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	broken := 0
	ended := make(chan error, 1)
	go func() {
		ended <- d.Write(t.Context(), "hold", func(*db.Tx) error { close(held); <-release; return nil })
	}()
	<-held
	waiting := func(n int) bool {
		h, err := d.Health(t.Context())
		return err != nil || h.Waiting >= n
	}
	go func() {
		for !waiting(1) {
			runtime.Gosched()
		}
		go func() {
			_ = d.Write(t.Context(), "break", func(tx *db.Tx) error {
				broken++
				_, err := tx.Exec(`INSERT INTO again_children VALUES (1)`)
				return err
			})
			close(done)
		}()
		for !waiting(2) {
			runtime.Gosched()
		}
		close(release)
	}()
	call()
	<-done
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if broken != 2 {
		t.Errorf("the group was run %d times, not twice", broken)
	}
	if err := write("tidy", `DROP TABLE again_children`, `DROP TABLE again_parents`); err != nil {
		t.Error(err)
	}
}
