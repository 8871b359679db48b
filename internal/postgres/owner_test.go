//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

// patience is more than anything takes that waits for nobody.
const patience = 20 * time.Second

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
		if err := x.Get(&id, "INSERT INTO owners (token, pid, program, registered_at) VALUES (?, 1, 'other', 1) "+
			"RETURNING id", []any{make([]byte, 16)}); err != nil {
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
		// it beats
		dbtest.PostgresExec(t, address, fmt.Sprintf("UPDATE selvedge.owner_beats SET until = "+
			"selvedge.server_nanos() + 3600000000000 WHERE owner = %d", id))
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

// Who judges waits for nobody who does the same, and has not come to its end.
func TestPostgres_DeadOwnerIsDeadToAll(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other := open(t, address), open(t, address)
	var id int64
	write(t, e, func(x engine.Tx) error {
		if err := x.Get(&id, "INSERT INTO owners (token, pid, program, registered_at) VALUES (?, 1, 'other', 1) "+
			"RETURNING id", []any{make([]byte, 16)}); err != nil {
			return err
		}
		_, err := x.Exec("INSERT INTO owner_beats VALUES (?, 1)", []any{id})
		return err
	})
	runs := 0
	judge := func(x engine.Tx) error {
		runs++
		life, err := x.Life(id)
		if err == nil && life != engine.LifeDead {
			t.Errorf("to %d it is %v", runs, life)
		}
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out := e.WriteLocked(ctx, "judge", func(x engine.Tx) error {
		err := judge(x)
		for _, write := range []func(context.Context, string,
			func(engine.Tx) error) callback.Outcome{other.WriteLocked, other.Write} {
			err = errors.Join(err, write(ctx, "judge", judge).Err)
		}
		return err
	}); out.Err != nil || runs != 3 {
		t.Errorf("they judged %d times: %v", runs, out.Err)
	}
}

// Who forgets the dead passes over those whom others are looking at, or take something from.
func TestPostgres_LastComerForgetsTheDead(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other := open(t, address), open(t, address)
	exec(t, e, "INSERT INTO owners (id, token, pid, program, registered_at) SELECT n, decode(lpad(to_hex(n), "+
		"32, '0'), 'hex'), 1, 'dead', 1 FROM generate_series(1, 4) n")
	exec(t, e, "INSERT INTO owner_beats SELECT n, 1 FROM generate_series(1, 3) n")
	exec(t, e, "INSERT INTO leases (scope, kind, name, reserved_at, renewed_at, owner_id) SELECT min(id), "+
		"'port', 'a', 1, 1, 3 FROM scopes")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	runs := 0
	forget := func(e *postgres.Engine, want string) {
		t.Helper()
		out := e.WriteLocked(ctx, "forget", func(x engine.Tx) error {
			runs++
			_, _, err := x.ForgetDeadOwners(engine.BeforeOwners)
			return err
		})
		if out.Err != nil {
			t.Error(out.Err)
		}
		if got := string(dbtest.PostgresExec(t, address,
			"SELECT string_agg(id::text, ' ' ORDER BY id) FROM selvedge.owners")[0][0]); got != want {
			t.Errorf("left are %q, not %q", got, want)
		}
	}
	if out := e.WriteLocked(ctx, "take", func(x engine.Tx) error {
		if _, err := x.Life(1); err != nil {
			return err
		}
		if _, err := x.Exec("DELETE FROM leases WHERE owner_id = 3", nil); err != nil {
			return err
		}
		if _, err := x.Life(3); err != nil {
			return err
		}
		forget(other, "1 3")
		return nil
	}); out.Err != nil {
		t.Error(out.Err)
	}
	if forget(other, ""); runs != 2 {
		t.Errorf("it took %d runs", runs)
	}
}

// The foreign keys are the authority on what owners own.
func TestPostgres_OwnersKnownBeforeForgotten(t *testing.T) {
	address := dbtest.Postgres(t)
	open(t, address)
	for _, table := range dbtest.PostgresExec(t, address, `
SELECT k.conrelid::regclass || ' WHERE ' || a.attname || ' =' FROM pg_constraint AS k
JOIN pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
	WHERE k.confrelid = 'selvedge.owners'::regclass AND k.confdeltype = 'a'`) {
		if _, text, _ := strings.Cut(string(table[0]), "."); !strings.Contains(postgres.SQLForgettable,
			"FROM "+text) {
			t.Errorf("it does not look at %s", table)
		}
	}
}

// owned claims something, and gives the number under which.
func owned(t *testing.T, e *postgres.Engine, name string) (id int64) {
	t.Helper()
	write(t, e, func(x engine.Tx) (err error) {
		if id, err = x.Owner(); err == nil {
			_, err = x.Exec("INSERT INTO claims VALUES (?, ?)", []any{name, id})
		}
		return err
	})
	return id
}

// So it is behind a backup of the server's that was brought back, or a failover that lost what was
// acknowledged.
func TestPostgres_LostRowClaimsUnderNewNumber(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	exec(t, e, claims)
	first := owned(t, e, "a")
	dbtest.PostgresExec(t, address, "DELETE FROM selvedge.claims; DELETE FROM selvedge.owners")
	second := owned(t, e, "b")
	if first == second {
		t.Errorf("both times it is %d", first)
	}
	write(t, e, func(x engine.Tx) error {
		own, err := x.Owns(first)
		if own {
			t.Errorf("it owns %d still", first)
		}
		return err
	})
}

// A number that was given to another process after the row of the first was lost is the other's alone.
func TestPostgres_ReusedNumberIsNotRenewed(t *testing.T) {
	postgres.WithBeats(t, 10*time.Millisecond)
	address := dbtest.Postgres(t)
	e := open(t, address)
	exec(t, e, claims)
	first := owned(t, e, "a")
	dbtest.PostgresExec(t, address, "UPDATE selvedge.owners SET token = decode(repeat('ab', 16), 'hex')")
	dbtest.Await(t, "it owns nothing under the number any more", func() (gone bool) {
		write(t, e, func(x engine.Tx) error {
			own, err := x.Owns(first)
			gone = !own
			return err
		})
		return gone
	})
	if second := owned(t, e, "b"); second == first {
		t.Errorf("both have %d", first)
	}
}
