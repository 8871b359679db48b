//go:build postgres

package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"selvedge/db/internal/engine"
	"selvedge/internal/dbtest"
)

// claims is a table of what owners hold.
const claims = "CREATE TABLE claims (name TEXT PRIMARY KEY, owner BIGINT REFERENCES owners (id))"

// Both ask before either is committed, and a third one has its snapshot from before.
func TestPostgresFunctionsSideBySideHaveOneOwner(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, claims)
	var began, wait sync.WaitGroup
	const callers = 3
	began.Add(callers)
	for c := range callers {
		wait.Go(func() {
			first := true
			out := e.Write(t.Context(), "claim", func(x engine.Tx) error {
				if err := x.Get(new(int64), "SELECT 1", nil); err != nil {
					return err
				}
				if first {
					first = false
					began.Done()
					began.Wait()
				}
				id, err := x.Owner()
				if err != nil {
					return err
				}
				_, err = x.Exec("INSERT INTO claims VALUES (?, ?)", []any{fmt.Sprint(c), id})
				return err
			})
			if out.Err != nil {
				t.Error(out.Err)
			}
		})
	}
	wait.Wait()
	var ids []int64
	if out := e.Read(t.Context(), "test", func(x engine.Rx) error {
		if err := x.Select(&ids, "SELECT owner FROM claims", nil); err != nil {
			return err
		}
		for _, id := range ids {
			if own, err := x.Owns(id); err != nil || !own {
				t.Errorf("of %d it does not own %d: %v", ids, id, err)
			}
		}
		return nil
	}); out.Err != nil || len(ids) != callers {
		t.Errorf("the claims are of %d: %v", ids, out.Err)
	}
}

// What a transaction sees is as old as its first statement, and the server's clock is not.
func TestPostgresALongTransactionTakesNobodyAliveForDead(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	var id int64
	write(t, e, func(x engine.Tx) error {
		if err := x.Get(&id, "INSERT INTO owners (token, pid, program, registered_at) VALUES (?, 1, 'other', 1) RETURNING id", []any{make([]byte, 16)}); err != nil {
			return err
		}
		_, err := x.Exec("INSERT INTO owner_beats VALUES (?, server_nanos() + 60000000000)", []any{id})
		return err
	})
	first := true
	judge := func(x engine.Rx) error {
		var until int64
		if err := x.Get(&until, "SELECT until FROM owner_beats WHERE owner = ?", []any{id}); err != nil {
			return err
		}
		dbtest.PostgresExec(t, address, fmt.Sprintf("UPDATE selvedge.owner_beats SET until = selvedge.server_nanos() + 3600000000000 WHERE owner = %d", id)) // it beats
		for passed := first; first && passed; {
			if err := x.Get(&passed, "SELECT server_nanos() <= ?", []any{until}); err != nil {
				return err
			}
		}
		first = false
		life, err := x.Life(id)
		if err == nil && life != engine.LifeAlive {
			t.Errorf("one that beats is %v", life)
		}
		return err
	}
	exec(t, e, "UPDATE owner_beats SET until = server_nanos() + 300000000 WHERE owner = ?", id)
	if out := e.Read(t.Context(), "judge", judge); out.Err != nil {
		t.Error(out.Err)
	}
	exec(t, e, "UPDATE owner_beats SET until = server_nanos() + 300000000 WHERE owner = ?", id)
	first = true
	write(t, e, func(x engine.Tx) error { return judge(x) })
}

// Both have looked before either has said so. One that reads what is committed last waits for the other, and finds the row changed.
func TestPostgresOneWhoIsDeadIsSoToAllWhoJudgeAtOnce(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other := open(t, address), open(t, address)
	var id int64
	write(t, e, func(x engine.Tx) error {
		if err := x.Get(&id, "INSERT INTO owners (token, pid, program, registered_at) VALUES (?, 1, 'other', 1) RETURNING id", []any{make([]byte, 16)}); err != nil {
			return err
		}
		_, err := x.Exec("INSERT INTO owner_beats VALUES (?, 1)", []any{id})
		return err
	})
	judged := make(chan engine.Life, 1)
	judge := func(x engine.Tx) (life engine.Life) {
		life, err := x.Life(id)
		if err != nil {
			t.Error(err)
		}
		return life
	}
	if out := e.WriteLocked(t.Context(), "judge", func(x engine.Tx) error {
		if life := judge(x); life != engine.LifeDead {
			t.Errorf("to the first it is %v", life)
		}
		go func() {
			var life engine.Life
			if out := other.WriteLocked(t.Context(), "judge", func(x engine.Tx) error { life = judge(x); return nil }); out.Err != nil {
				t.Error(out.Err)
			}
			judged <- life
		}()
		dbtest.AwaitPostgresWaits(t, address, 1)
		return nil
	}); out.Err != nil {
		t.Fatal(out.Err)
	}
	if life := <-judged; life != engine.LifeDead {
		t.Errorf("to the second it is %v", life)
	}
}
