package checkpoints_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// claimsUnder gives a store whose claims last a minute, on a clock that stands still until it is moved.
func claimsUnder(t *testing.T, o checkpoints.Options) (*checkpoints.Store, *db.DB, *db.BootTime) {
	t.Helper()
	boot := &db.BootTime{Boot: "first", Since: time.Hour}
	d := dbtest.Open(t, db.Options{BootTime: func() db.BootTime { return *boot }})
	return checkpoints.NewStore(d, o), d, boot
}

var minute = checkpoints.Options{ClaimTTL: time.Minute}

func wantClaimLost(t *testing.T, c *checkpoints.Claim) {
	t.Helper()
	ran := false
	for what, err := range map[string]error{
		"renew": c.Renew(ctx), "complete": c.Complete(ctx), "release": c.Release(ctx),
		"hold": c.Hold(ctx, "work", func(*db.Tx) error { ran = true; return nil }),
	} {
		if !errors.Is(err, db.ErrLeaseLost) || db.Hint(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if ran {
		t.Error("a stale holder worked")
	}
}

func TestClaim_ExpiresAndRenewalExtendsIt(t *testing.T) {
	store, _, boot := claimsUnder(t, minute)
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	for range 3 {
		boot.Since += time.Minute - 1
		if n, err := store.Recover(ctx); n != 0 || err != nil {
			t.Fatalf("within its time: recovered %d, %v", n, err)
		}
		check(t, claim.Renew(ctx))
	}
	boot.Since += time.Minute
	wantClaimLost(t, claim) // though nobody has it
	if one, err := store.Get(ctx, checkpoints.Ref{RunID: "r"}); err != nil || !one.Claim.Expired ||
		!one.Claim.Alive {
		t.Errorf("it is %+v, %v", one.Claim, err)
	}
	if n, err := store.Recover(ctx); n != 1 || err != nil {
		t.Errorf("after its time: recovered %d, %v", n, err)
	}
	wantClaimLost(t, claim)
	check(t, mustClaim(t, store, "r").Complete(ctx))
}

func TestTheLongestClaimDoesNotWrapAround(t *testing.T) {
	store, _, boot := claimsUnder(t, checkpoints.Options{ClaimTTL: math.MaxInt64})
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	for range 2 {
		boot.Since += 1000 * time.Hour
		if n, err := store.Recover(ctx); n != 0 || err != nil {
			t.Errorf("recovered %d, %v", n, err)
		}
		check(t, claim.Renew(ctx))
	}
	check(t, claim.Complete(ctx))
}

func TestClaim_UndoneEpochIsNotUsedAgain(t *testing.T) {
	store, d, _ := claimsUnder(t, minute)
	save(t, store, "r")
	var undone *checkpoints.Claim
	failure := errors.New("the caller fails")
	err := d.Write(ctx, "claim and fail", func(tx *db.Tx) (err error) {
		undone, _, err = store.ClaimTx(tx, "r")
		return errors.Join(err, failure)
	})
	if !errors.Is(err, failure) || undone == nil {
		t.Fatalf("%v, %v", undone, err)
	}
	wantClaimLost(t, undone)
	next := mustClaim(t, store, "r")
	if next.Epoch() <= undone.Epoch() {
		t.Errorf("behind epoch %d, which was undone, comes %d", undone.Epoch(), next.Epoch())
	}
	wantClaimLost(t, undone)
	check(t, next.Complete(ctx))
}

func TestAClaimIsGivenBack(t *testing.T) {
	store := openStore(t)
	save(t, store, "r")
	first := mustClaim(t, store, "r")
	check(t, first.Release(ctx))
	wantClaimLost(t, first)
	wantList(t, store, "r")
	second := mustClaim(t, store, "r")
	if second.Epoch() <= first.Epoch() || string(second.Document()) != string(first.Document()) {
		t.Errorf("epoch %d after %d, %s", second.Epoch(), first.Epoch(), second.Document())
	}
	save(t, store, "r") // it pauses again: the older document goes
	check(t, second.Release(ctx))
	if got := contents(t, store); got != "r:paused " {
		t.Errorf("there is %s", got)
	}
}

func TestWorkUnderAClaimIsOneTransactionWithIt(t *testing.T) {
	store := openStore(t)
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	mine := &db.Error{Op: "mine", Err: errors.New("no")}
	before := fmt.Sprintf("%+v", *mine)
	if err := claim.Hold(ctx, "work", func(tx *db.Tx) error {
		return errors.Join(store.SaveTx(tx, sample("next")), claim.CompleteTx(tx), mine)
	}); !errors.Is(err, mine) || fmt.Sprintf("%+v", *mine) != before {
		t.Errorf("%v became %+v", err, mine)
	}
	wantList(t, store)
	check(t, claim.Hold(ctx, "work", func(
		tx *db.Tx,
	) error {
		return errors.Join(store.SaveTx(tx, sample("next")), claim.CompleteTx(tx))
	}))
	wantList(t, store, "next")
}

func TestAClaimIsTakenUpAgain(t *testing.T) {
	store, _, boot := claimsUnder(t, minute)
	save(t, store, "another run, whose document comes first")
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	again, err := store.Reattach(ctx, "r", claim.Epoch())
	if err != nil || string(again.Document()) != string(claim.Document()) ||
		!again.ClaimedAt().Equal(claim.ClaimedAt()) {
		t.Fatalf("%+v, %v", again, err)
	}
	kept, stop := again.Keep(t.Context())
	if stop(); errors.Is(context.Cause(kept), db.ErrLeaseLost) {
		t.Errorf("it is kept as if it were over: %v", context.Cause(kept))
	}
	check(t, again.Renew(ctx))
	for what, c := range map[string]struct {
		run   string
		epoch int64
	}{"another epoch": {"r", claim.Epoch() + 1}, "another run": {"s", claim.Epoch()}} {
		if c, err := store.Reattach(ctx, c.run, c.epoch); !errors.Is(err, db.ErrLeaseLost) || c != nil {
			t.Errorf("%s: %v, %v", what, c, err)
		}
	}
	boot.Since += time.Minute
	if _, err := store.Reattach(ctx, "r", claim.Epoch()); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("one that is over: %v", err)
	}
}

func TestKeepRenewsAClaimUntilItIsLost(t *testing.T) {
	const ttl = 1500 * time.Millisecond
	renewed := make(chan struct{}, 100)
	var passed atomic.Int64 // on a clock that stands still while the machine has no time for the keeper
	d := dbtest.Open(t, db.Options{
		BootTime: func() db.BootTime {
			return db.BootTime{
				Boot:  "first",
				Since: time.Hour + time.Duration(passed.Load()),
			}
		},
		Observe: func(o db.Observation) {
			if o.Why == "renew claim" && o.Err == nil {
				renewed <- struct{}{}
			}
		},
	})
	store := checkpoints.NewStore(d, checkpoints.Options{ClaimTTL: ttl})
	save(t, store, "r")
	kept, stop := mustClaim(t, store, "r").Keep(t.Context())
	defer stop()
	for range 3 { // more than its TTL
		<-renewed
		passed.Add(int64(ttl / 2))
	}
	if kept.Err() != nil {
		t.Fatalf("it ended: %v", context.Cause(kept))
	}
	check(t, store.Remove(ctx, "r"))
	<-kept.Done()
	if err := context.Cause(kept); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the cause is %v", err)
	}
}

func TestRecover_TakesOnlyWhatDeadHeld(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	for _, id := range []string{"mine", "other handle's", "living", "dead", "dead, and paused again"} {
		save(t, store, id)
	}
	second, err := db.Open(ctx, path, db.Options{})
	check(t, err)
	defer func() { check(t, second.Close()) }()
	elsewhere := checkpoints.NewStore(second, checkpoints.Options{})
	mine, theirs := mustClaim(t, store, "mine"), mustClaim(t, elsewhere, "other handle's")
	living, dead := startWorker(t, path), startWorker(t, path)
	living.do(order{Op: "claim", RunID: "living"})
	dead.do(order{Op: "claim", RunID: "dead"})
	dead.do(order{Op: "claim", RunID: "dead, and paused again"})
	save(t, store, "dead, and paused again")
	check(t, d.Write(ctx, "import", func(tx *db.Tx) error {
		return checkpoints.PutImported(tx, checkpoints.Claimed, "imported", []byte(sampleDocument))
	}))
	living.Signal(syscall.SIGSTOP)
	dead.Kill()
	for _, want := range []int{1, 0} {
		if n, err := store.Recover(ctx); n != want || err != nil {
			t.Errorf("recovered %d, %v; want %d", n, err, want)
		}
	}
	wantList(t, store, "dead", "dead, and paused again")
	owners := 0
	check(t, d.Read(ctx, "count", func(rx *db.Rx) error {
		return rx.Get(&owners,
			`SELECT count(*) FROM owners`)
	}))
	if owners != 3 { // two handles of this process, and the living one
		t.Errorf("%d owners are registered: the dead one is not forgotten", owners)
	}
	check(t, mine.Renew(ctx))
	check(t, theirs.Complete(ctx))
	living.Signal(syscall.SIGCONT)
	living.Wait()
	wantRecovered(t, store, 3) // mine, the imported one, and that of the process that left
}

// On a server a claim may change between the look at it and the change that was judged by it.
func TestClaim_ChangedSinceJudgedStays(t *testing.T) {
	store, d, _ := claimsUnder(t, minute)
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	for _, c := range []struct {
		epoch, until int64
		took         int
	}{{0, 0, 3}, {-1, 0, 0}, {0, -1, 0}} {
		check(t, d.Write(ctx, "judge", func(tx *db.Tx) error {
			took, err := claim.Outdated(tx, c.epoch, c.until)
			if len(took) != c.took {
				t.Errorf("an epoch that differs by %d, an end by %d: %v took effect", c.epoch, c.until, took)
			}
			return err
		}))
	}
	check(t, claim.Complete(ctx))
}

func TestAClaimThatWasMadeSinceRecoveryLookedStays(t *testing.T) {
	var next *checkpoints.Claim
	boot := db.BootTime{Boot: "first", Since: time.Hour}
	now := func() db.BootTime { return boot }
	path := dbtest.Path(t)
	other := checkpoints.NewStore(dbtest.OpenAt(t, path, db.Options{BootTime: now}), minute)
	d := dbtest.OpenAt(t, path, db.Options{BootTime: now, Observe: func(o db.Observation) {
		if o.Write || o.Why != "recover checkpoints" || next != nil {
			return
		}
		if n, err := other.Recover(ctx); n != 1 || err != nil {
			t.Errorf("recovered %d, %v", n, err)
		}
		next = mustClaim(t, other, "r")
	}})
	store := checkpoints.NewStore(d, minute)
	save(t, store, "r")
	mustClaim(t, store, "r")
	boot.Since += time.Minute
	if n, err := store.Recover(ctx); n != 0 || err != nil {
		t.Errorf("recovered %d, %v", n, err)
	}
	check(t, next.Renew(ctx))
}

func TestARecoveryThatIsRunAgainCountsEachOnce(t *testing.T) {
	store, d, boot := claimsUnder(t, minute)
	for _, id := range []string{"a", "b", "c"} {
		save(t, store, id)
		mustClaim(t, store, id)
	}
	boot.Since += time.Minute
	dbtest.Again(t, d, func() {
		if n, err := store.Recover(ctx); n != 3 || err != nil {
			t.Errorf("recovered %d, %v", n, err)
		}
	})
}

func TestKeepingWhatIsOverSaysWhatItIs(t *testing.T) {
	store, _, boot := claimsUnder(t, minute)
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	boot.Since += time.Minute
	kept, stop := claim.Keep(t.Context())
	defer stop()
	<-kept.Done()
	if err := context.Cause(kept); !errors.Is(err, db.ErrLeaseLost) || !strings.Contains(err.Error(), `"r"`) {
		t.Errorf("the cause is %v", err)
	}
}

func TestAnErrorOfAClaimNamesItsRun(t *testing.T) {
	store, d, _ := claimsUnder(t, minute)
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	trigger := func(text string) {
		check(t, d.Write(ctx, "trigger", func(tx *db.Tx) error { _, err := tx.Exec(text); return err }))
	}
	trigger(`CREATE TRIGGER none_changes BEFORE UPDATE ON checkpoints BEGIN
		SELECT RAISE(ABORT, 'not today'); END`)
	for what, err := range map[string]error{"renew": claim.Renew(ctx), "release": claim.Release(ctx)} {
		if err == nil || !strings.Contains(err.Error(), `"r"`) {
			t.Errorf("%s gave %v", what, err)
		}
	}
	trigger(`DROP TRIGGER none_changes`)
	check(t, claim.Complete(ctx))
}

func TestAnImportedClaimIsNobodysToTakeUp(t *testing.T) {
	store, d, _ := claimsUnder(t, minute)
	check(t, d.Write(ctx, "import", func(tx *db.Tx) error {
		return checkpoints.PutImported(tx, checkpoints.Claimed, "r", []byte(sampleDocument))
	}))
	other := checkpoints.NewStore(d, checkpoints.Options{Scope: "none"})
	for _, s := range []*checkpoints.Store{store, other} {
		if c, err := s.Reattach(ctx, "r", 0); c != nil || !errors.Is(err, db.ErrLeaseLost) {
			t.Errorf("it gave %v, %v", c, err)
		}
	}
}

func TestClaim_OnlyOpenConflictOfRunBlocks(t *testing.T) {
	store, d, _ := claimsUnder(t, minute)
	elsewhere := checkpoints.NewStore(d, checkpoints.Options{Scope: "other"})
	for _, id := range []string{"decided", "of the other scope", "an agent", "open", "beside it"} {
		save(t, store, id)
	}
	save(t, elsewhere, "of the other scope")
	check(t, d.Write(ctx, "conflicts", func(tx *db.Tx) error {
		for _, statement := range []string{
			`INSERT INTO import_sources (scope, kind, root, first_at) SELECT id, 'checkpoints', x'2f', 0 FROM scopes`,
			`INSERT INTO imports (source, began_at, pid, user, program) SELECT id, 0, 1, 'u', 'p' FROM import_sources`,
			`INSERT INTO import_conflicts (scope, kind, entity_id, source, path, import, reason, found_at, decided_at,
			taken, pid, user, program)
			SELECT s.scope, c.kind, c.id, s.id, x'61', i.id, 'it went on', 0, c.decided, iif(c.decided, 'ours', NULL),
			c.decided, iif(c.decided, 'u', NULL), iif(c.decided, 'p', NULL)
			FROM import_sources AS s JOIN scopes ON scopes.id = s.scope JOIN imports AS i ON i.source = s.id JOIN (
			    SELECT '' AS scope, 'checkpoints' AS kind, 'decided' AS id, 1 AS decided UNION ALL
			    SELECT 'other', 'checkpoints', 'of the other scope', NULL
			    UNION ALL SELECT '', 'agents', 'an agent', NULL UNION ALL
			    SELECT '', 'checkpoints', 'open', NULL) AS c ON c.scope = scopes.name`,
		} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, id := range []string{"decided", "of the other scope", "an agent", "beside it"} {
		mustClaim(t, store, id)
	}
	for s, id := range map[*checkpoints.Store]string{store: "open", elsewhere: "of the other scope"} {
		if _, ok, err := s.Claim(ctx, id); ok || !errors.Is(err, db.ErrConflict) {
			t.Errorf("%s was claimed: %v, %v", id, ok, err)
		}
	}
}

func TestRecoveryPassesByWhatLivesOnEveryPage(t *testing.T) {
	checkpoints.InSmallTurns(t)
	store, _, boot := claimsUnder(t, minute)
	var living []*checkpoints.Claim
	for _, id := range []string{"", "a", "b", "c", "d", "e"} {
		save(t, store, id)
		if id == "b" || id == "e" {
			continue
		}
		living = append(living, mustClaim(t, store, id))
	}
	boot.Since += 40 * time.Second
	mustClaim(t, store, "b")
	mustClaim(t, store, "e")
	boot.Since += 40 * time.Second // those two are held still
	if n, err := store.Recover(ctx); n != len(living) || err != nil {
		t.Errorf("recovered %d, %v; want %d", n, err, len(living))
	}
	wantList(t, store, "", "a", "c", "d")
	for _, c := range living {
		wantClaimLost(t, c)
	}
	boot.Since += 20 * time.Second
	if n, err := store.Recover(ctx); n != 2 || err != nil {
		t.Errorf("then %d, %v; want the other two", n, err)
	}
}

func TestRecover_UnclaimableClaimIsNotCounted(t *testing.T) {
	store, d, _ := claimsUnder(t, checkpoints.Options{})
	check(t, d.Write(ctx, "import", func(tx *db.Tx) error {
		return checkpoints.PutImported(tx, checkpoints.Claimed, "r", []byte("torn"))
	}))
	wantRecovered(t, store, 0)
	if got := contents(t, store); got != "r:paused " {
		t.Errorf("there is %s", got)
	}
}

func TestRecoveringManyLetsOtherWritersIn(t *testing.T) {
	checkpoints.InSmallTurns(t)
	turns := 0
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if o.Write && o.Why == "recover checkpoints" {
			turns++
		}
	}})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	for _, id := range []string{"", "a", "b", "c"} {
		save(t, store, id)
		mustClaim(t, store, id)
	}
	wantRecovered(t, store, 4)
	if turns != 4 {
		t.Errorf("%d turns of the writer for 4 claims of one each", turns)
	}
	wantRecovered(t, store, 0)
	if turns != 4 {
		t.Errorf("with nothing claimed there are %d turns more", turns-4)
	}
}

func TestATransactionOfAnotherFileIsRefused(t *testing.T) {
	store, other := openStore(t), dbtest.Open(t, db.Options{})
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	save(t, checkpoints.NewStore(other, checkpoints.Options{}), "r")
	check(t, other.Write(ctx, "foreign", func(tx *db.Tx) error {
		_, _, claims := store.ClaimTx(tx, "r")
		_, _, load := store.LoadTx(&tx.Rx, "r")
		_, get := store.GetTx(&tx.Rx, checkpoints.Ref{RunID: "r"})
		_, page := store.PageTx(&tx.Rx, checkpoints.Filter{}, db.At{})
		_, find := store.FindTx(&tx.Rx, "", 0)
		for what, err := range map[string]error{
			"claim": claims, "load": load, "get": get, "page": page, "find": find,
			"save":   store.SaveTx(tx, sample("r")),
			"delete": store.DeleteTx(tx, checkpoints.Ref{RunID: "r"}), "remove": store.RemoveTx(tx, "r"),
			"complete by id": store.CompleteTx(tx, "r"),
			"complete":       claim.CompleteTx(tx), "renew": claim.RenewTx(tx), "release": claim.ReleaseTx(tx),
			"hold": claim.HoldTx(tx),
		} {
			if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "another file") {
				t.Errorf("%s: %v", what, err)
			}
		}
		return nil
	}))
}
