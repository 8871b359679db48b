//go:build postgres

package checkpoints_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// The seed's own tests, the model, what races and is killed, and what was recorded.
func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestSaveLoadRemoveRoundtrip, TestClaimIsExactlyOnce, TestRecoverRearmsOrphanedInflight,
		TestTheStoreIsTwoMaps,
		TestClaim_ExpiresAndRenewalExtendsIt, TestAClaimIsGivenBack, TestKeepRenewsAClaimUntilItIsLost,
		TestRecover_TakesOnlyWhatDeadHeld, TestAClaimThatWasMadeSinceRecoveryLookedStays,
		TestARecoveryThatIsRunAgainCountsEachOnce, TestTx_CallsHappenTogetherOrNever,
		TestPrune_KeepsDecisionsOfOpenRuns,
		TestClaimingTheNextPauseEndsTheOlderClaim, TestAStaleHandleCompletesNothing,
		TestEpochsGrowThroughRemovalAndRecovery,
		TestClaimsOfALivingProcessAreSafe, TestClaimsOfADeadProcessAreRecoveredOnce,
		TestAnExpiredClaimIsTakenFromALivingProcess,
		TestOneClaimerWins, TestHistoriesAreLinearizable,
		TestAgents_OneRunIDHoldsTwoCheckpoints, TestAgents_UnnamedCallNamesFirst,
		TestAgents_ExportNamesWhatCollides, TestAgents_UpgradeKeepsAllRows,
		TestTranscripts, TestTrees,
	)
}

// Of two saves the one that comes later must not be numbered first: the epoch of a claim begins
// with the number of its row, and a run's epochs grow.
func TestPostgres_SavesOfRunNumberedInOrder(t *testing.T) {
	address := dbtest.Postgres(t)
	store := checkpoints.NewStore(dbtest.OpenAt(t, address, db.Options{}), checkpoints.Options{})
	save(t, store, "r")
	number := func() string {
		return string(dbtest.PostgresExec(t, address,
			"SELECT last_value FROM pg_sequences WHERE schemaname = 'selvedge' AND sequencename = "+
				"'checkpoints_id_seq'")[0][0])
	}
	conn, err := pgconn.Connect(t.Context(), address)
	check(t, err)
	t.Cleanup(func() { check(t, conn.Close(context.Background())) })
	_, err = conn.Exec(t.Context(), "BEGIN; SELECT id FROM selvedge.checkpoints FOR UPDATE").ReadAll()
	check(t, err)
	if number() != "1" {
		t.Fatalf("the first save has number %s", number())
	}
	var saves sync.WaitGroup
	for range 2 {
		saves.Go(func() {
			save(t, checkpoints.NewStore(dbtest.OpenAt(t, address, db.Options{}), checkpoints.Options{}), "r")
		})
	}
	dbtest.AwaitPostgresWaits(t, address, 2)
	if number() != "2" {
		t.Errorf("two wait, and number %s is given: want 2", number())
	}
	_, err = conn.Exec(t.Context(), "ROLLBACK").ReadAll()
	check(t, err)
	saves.Wait()
}

// A claimer waits for a pause that another one replaces, which is removed again: either the claimer has
// it, or the older claim goes on.
func TestPostgres_VanishedPauseEndsNoOlderClaim(t *testing.T) {
	address := dbtest.Postgres(t)
	store := checkpoints.NewStore(dbtest.OpenAt(t, address, db.Options{}), checkpoints.Options{})
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	save(t, store, "r")
	locking := func(statements string) *pgconn.PgConn {
		conn, err := pgconn.Connect(t.Context(), address)
		check(t, err)
		t.Cleanup(func() { check(t, conn.Close(context.Background())) })
		_, err = conn.Exec(t.Context(), "SET search_path = selvedge; BEGIN; "+statements).ReadAll()
		check(t, err)
		return conn
	}
	free := func(conn *pgconn.PgConn) {
		_, err := conn.Exec(t.Context(), "COMMIT").ReadAll()
		check(t, err)
	}
	waiting := func() int {
		return len(dbtest.PostgresExec(t, address,
			"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"))
	}
	waits := func() { dbtest.AwaitPostgresWaits(t, address, 1) }
	pause := locking(`CREATE TEMP TABLE again ON COMMIT DROP AS SELECT * FROM checkpoints WHERE state = 'paused';
CREATE TEMP TABLE document ON COMMIT DROP AS
	SELECT * FROM checkpoint_documents WHERE checkpoint = (SELECT id FROM again);
DELETE FROM checkpoints WHERE state = 'paused';
UPDATE again SET id = nextval('checkpoints_id_seq');
UPDATE document SET checkpoint = (SELECT id FROM again);
INSERT INTO checkpoints SELECT * FROM again;
INSERT INTO checkpoint_documents SELECT * FROM document`)
	history := locking("LOCK TABLE checkpoint_history IN SHARE MODE")
	type answer struct {
		ok  bool
		err error
	}
	done := make(chan answer, 1)
	go func() {
		_, ok, err := store.Claim(ctx, "r")
		done <- answer{ok, err}
	}()
	waits()
	free(pause)
	waits()
	removal := make(chan struct{})
	go func() {
		defer close(removal)
		dbtest.PostgresExec(t, address, "DELETE FROM selvedge.checkpoints WHERE state = 'paused'")
	}()
	dbtest.Await(t, "the removal is done, or waits for the claimer", func() bool {
		select {
		case <-removal:
			return true
		default:
			return waiting() >= 2
		}
	})
	free(history)
	got := dbtest.Receive(t, "the end of the claim", done)
	dbtest.Receive(t, "the end of the removal", removal)
	if err := claim.Renew(ctx); got.err != nil || got.ok == (err == nil) {
		t.Errorf("the pause was claimed: %v, %v; the older claim: %v", got.ok, got.err, err)
	}
}

// An import that has the row notes a conflict, which the claim did not see before it waited.
func TestPostgres_ClaimSeesConflictNotedMeanwhile(t *testing.T) {
	address := dbtest.Postgres(t)
	d := dbtest.OpenAt(t, address, db.Options{})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	save(t, store, "r")
	type outcome struct {
		ok  bool
		err error
	}
	claimed := make(chan outcome, 1)
	check(t, d.WriteLocked(t.Context(), "import", func(tx *db.Tx) error {
		if err := tx.Store().WillChange(txn.Checkpoints.Rows("SELECT id FROM checkpoints")); err != nil {
			return err
		}
		for _, statement := range []string{
			`INSERT INTO import_sources (scope, kind, root, first_at) SELECT id, 'checkpoints', '/', 0 FROM scopes`,
			`INSERT INTO imports (source, began_at, pid, "user", program)
			SELECT id, 0, 1, 'u', 'p' FROM import_sources`,
			`INSERT INTO import_conflicts (scope, kind, entity_id, source, path, import, reason, found_at)
			SELECT s.scope, s.kind, 'r', s.id, 'a', i.id, 'it went on', 0 FROM import_sources AS s
			JOIN imports AS i ON i.source = s.id`,
		} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		go func() {
			_, ok, err := store.Claim(t.Context(), "r")
			claimed <- outcome{ok, err}
		}()
		dbtest.AwaitPostgresWaits(t, address, 1)
		return nil
	}))
	if got := dbtest.Receive(t, "the claim", claimed); got.ok || !errors.Is(got.err, db.ErrConflict) {
		t.Errorf("it was claimed: %v, %v", got.ok, got.err)
	}
}

// The holder's call waits for the row until the claim's time is over, and somebody has been told so.
func TestPostgres_HolderWaitingPastEndLosesClaim(t *testing.T) {
	address := dbtest.Postgres(t)
	var now atomic.Int64
	open := func(ttl time.Duration) (*db.DB, *checkpoints.Store) {
		d := dbtest.OpenAt(t, address, db.Options{BootTime: func() db.BootTime {
			return db.BootTime{Boot: "server", Since: time.Hour + time.Duration(now.Load())}
		}})
		return d, checkpoints.NewStore(d, checkpoints.Options{ClaimTTL: ttl})
	}
	d, store := open(time.Minute)
	_, others := open(time.Minute)
	for name, call := range map[string]func(*checkpoints.Claim) error{
		"renew":    func(c *checkpoints.Claim) error { return c.Renew(t.Context()) },
		"complete": func(c *checkpoints.Claim) error { return c.Complete(t.Context()) },
		"release":  func(c *checkpoints.Claim) error { return c.Release(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			save(t, store, name)
			claim := mustClaim(t, store, name)
			done := make(chan error, 1)
			check(t, d.WriteLocked(t.Context(), "have the row", func(tx *db.Tx) error {
				run := txn.Checkpoints.Rows("SELECT id FROM checkpoints WHERE run_id = ?")
				if err := tx.Store().WillChange(run, name); err != nil {
					return err
				}
				if _, err := tx.Find(new(int64), "SELECT 1"); err != nil { // with which the lock goes
					return err
				}
				go func() { done <- call(claim) }()
				dbtest.AwaitPostgresWaits(t, address, 1)
				now.Add(int64(time.Minute))
				told := false
				for c, err := range others.All(t.Context(), checkpoints.Filter{State: checkpoints.Claimed}) {
					told = told || err == nil && c.RunID == name && c.Claim.Expired
				}
				if !told {
					t.Error("nobody was told that it is over")
				}
				return nil
			}))
			if err := <-done; !errors.Is(err, db.ErrLeaseLost) {
				t.Errorf("the call gives %v", err)
			}
		})
	}
}

// A recovery in the caller's WriteLocked judged a claim that its holder renewed, or that another
// recovery gave to another holder, before it came to the row.
func TestPostgres_RecoverSparesClaimChangedSince(t *testing.T) {
	var address string
	var now atomic.Int64
	open := func(ttl time.Duration) (*db.DB, *checkpoints.Store) {
		d := dbtest.OpenAt(t, address, db.Options{BootTime: func() db.BootTime {
			return db.BootTime{Boot: "server", Since: time.Hour + time.Duration(now.Load())}
		}})
		return d, checkpoints.NewStore(d, checkpoints.Options{ClaimTTL: ttl})
	}
	type held = *checkpoints.Claim
	for name, c := range map[string]struct {
		ttl    time.Duration
		change func(tx *db.Tx, store *checkpoints.Store, claim held) (held, error)
	}{
		"renewed": {time.Minute, func(tx *db.Tx, _ *checkpoints.Store, claim held) (held, error) {
			now.Add(int64(40 * time.Second))
			err := claim.RenewTx(tx)
			now.Add(int64(40 * time.Second))
			return claim, err
		}},
		"claimed again": {0, func(tx *db.Tx, store *checkpoints.Store, _ held) (held, error) {
			if freed, err := store.RecoverOneTx(tx, "claimed again"); err != nil || !freed {
				return nil, fmt.Errorf("recovered %t: %w", freed, err)
			}
			claim, ok, err := store.ClaimTx(tx, "claimed again")
			if !ok {
				err = errors.Join(err, errors.New("it can't be claimed"))
			}
			return claim, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			address = dbtest.Postgres(t)
			writer, store := open(c.ttl)
			save(t, store, name)
			claim := mustClaim(t, store, name)
			if c.ttl == 0 { // its process's last handle: what it held is nobody's
				check(t, writer.Close())
				writer, store = open(c.ttl)
			}
			other, recovers := open(c.ttl)
			t.Cleanup(func() { check(t, errors.Join(writer.Close(), other.Close())) })
			type answer struct {
				n   int
				err error
			}
			done := make(chan answer, 1)
			check(t, writer.WriteLocked(t.Context(), "change it", func(tx *db.Tx) (err error) {
				if claim, err = c.change(tx, store, claim); err != nil {
					return err
				}
				go func() {
					var got answer
					got.n, got.err = recovers.Recover(t.Context())
					done <- got
				}()
				dbtest.AwaitPostgresWaits(t, address, 1)
				return nil
			}))
			if got := dbtest.Receive(t, "the end of the recovery", done); got.n != 0 || got.err != nil {
				t.Errorf("%d recovered: %v", got.n, got.err)
			}
			check(t, claim.Hold(t.Context(), "work", func(*db.Tx) error { return nil }))
		})
	}
}
