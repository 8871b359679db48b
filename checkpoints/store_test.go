package checkpoints_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

func TestDocumentsComeBackByteForByte(t *testing.T) {
	store := openStore(t)
	document := []byte(strings.Replace(sampleDocument, `"wf_state": {}`,
		"\"later\":\t1e0, \"wf_state\": {\"n\":1E5}", 1) + "\r\n")
	if err := store.SaveDocument(ctx, "kept", document); err != nil {
		t.Fatal(err)
	}
	loaded, ok, err := store.LoadDocument(ctx, "kept")
	if err != nil || !ok || string(loaded) != string(document) {
		t.Errorf("loaded %q, %v, %v", loaded, ok, err)
	}
	if claim := mustClaim(t, store, "kept"); string(claim.Document()) != string(document) {
		t.Errorf("claimed %q", claim.Document())
	}
	wantRecovered(t, store, 1)
	p, ok, err := store.Load(ctx, "kept")
	if err != nil || !ok {
		t.Fatalf("load: %v, %v", ok, err)
	}
	p.RunID = "kept" // the document names another run
	if err := store.Save(ctx, p); err != nil {
		t.Fatal(err)
	}
	if loaded, _, err = store.LoadDocument(ctx, "kept"); err != nil ||
		!strings.Contains(string(loaded), `"n": 1E5`) {
		t.Errorf("saved again as %s, %v", loaded, err)
	}
}

func TestARunPausesAgainWhileItIsClaimed(t *testing.T) {
	store := openStore(t)
	save(t, store, "r")
	first := mustClaim(t, store, "r")
	save(t, store, "r")
	wantList(t, store, "r")
	if err := first.Complete(ctx); err != nil {
		t.Fatal(err)
	}
	wantList(t, store, "r")
	if second := mustClaim(t, store, "r"); second.Epoch() <= first.Epoch() {
		t.Errorf("epoch %d after %d", second.Epoch(), first.Epoch())
	}
}

func TestClaimingTheNextPauseEndsTheOlderClaim(t *testing.T) {
	store := openStore(t)
	save(t, store, "r")
	first := mustClaim(t, store, "r")
	save(t, store, "r")
	second := mustClaim(t, store, "r")
	if err := first.Complete(ctx); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the older claim completes with %v", err)
	}
	if err := first.Renew(ctx); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("the older claim renews with %v", err)
	}
	if err := second.Renew(ctx); err != nil {
		t.Error(err)
	}
	if err := second.Complete(ctx); err != nil {
		t.Error(err)
	}
	wantRecovered(t, store, 0)
}

func TestAStaleHandleCompletesNothing(t *testing.T) {
	for name, away := range map[string]func(t *testing.T, s *checkpoints.Store){
		"recovered": func(t *testing.T, s *checkpoints.Store) { wantRecovered(t, s, 1) },
		"recovered and claimed again": func(t *testing.T,
			s *checkpoints.Store,
		) {
			wantRecovered(t, s, 1)
			mustClaim(t, s, "r")
		},
		"removed": func(t *testing.T, s *checkpoints.Store) { check(t, s.Remove(ctx, "r")) },
		"removed, saved and claimed": func(t *testing.T, s *checkpoints.Store) {
			check(t, s.Remove(ctx, "r"))
			save(t, s, "r")
			mustClaim(t, s, "r")
		},
		"completed by id": func(t *testing.T, s *checkpoints.Store) { check(t, s.Complete(ctx, "r")) },
		"completed, saved and claimed": func(t *testing.T, s *checkpoints.Store) {
			check(t, s.Complete(ctx, "r"))
			save(t, s, "r")
			mustClaim(t, s, "r")
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := openStore(t)
			save(t, store, "r")
			stale := mustClaim(t, store, "r")
			away(t, store)
			before := contents(t, store)
			if err := stale.Complete(ctx); !errors.Is(err, db.ErrLeaseLost) || db.Hint(err) == "" {
				t.Errorf("it completes with %v, hint %q", err, db.Hint(err))
			}
			if after := contents(t, store); after != before {
				t.Errorf("it changed %s to %s", before, after)
			}
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents tells what is in the store, claims included.
func contents(t testing.TB, s *checkpoints.Store) string {
	t.Helper()
	var b strings.Builder
	for c, err := range s.All(ctx, checkpoints.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(c.RunID + ":" + string(c.State) + " ")
	}
	return b.String()
}

func TestEpochsGrowThroughRemovalAndRecovery(t *testing.T) {
	store := openStore(t)
	last := int64(0)
	for i := range 30 {
		save(t, store, "r")
		for range i % 3 {
			claim := mustClaim(t, store, "r")
			if claim.Epoch() <= last {
				t.Fatalf("epoch %d after %d", claim.Epoch(), last)
			}
			last = claim.Epoch()
			wantRecovered(t, store, 1)
		}
		check(t, store.Remove(ctx, "r"))
	}
}

func TestScopesDoNotSeeEachOther(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	home, other := checkpoints.NewStore(d, checkpoints.Options{}),
		checkpoints.NewStore(d, checkpoints.Options{Scope: "other"})
	wantList(t, other)
	wantRecovered(t, other, 0)
	save(t, home, "r")
	wantNoClaim(t, other, "r")
	check(t, other.Remove(ctx, "r"))
	mustClaim(t, home, "r")
	save(t, other, "r")
	wantRecovered(t, other, 0)
	wantList(t, home)
	wantList(t, other, "r")
}

func TestIDsAreWhatTheyAre(t *testing.T) {
	store := openStore(t)
	ids := []string{
		"", ".", "..", "../escaped", "A", "a", "a\nb", "x.inflight", "x/y",
		strings.Repeat("é", txn.MaxID/2), "\U0001F600",
	}
	for _, id := range ids {
		save(t, store, id)
	}
	for _, id := range ids {
		mustClaim(t, store, id)
	}
	wantList(t, store)
	wantRecovered(t, store, len(ids))
	if got, err := store.List(ctx); err != nil || len(got) != len(ids) || got[0] != "" {
		t.Errorf("the list is %q, %v", got, err)
	}
	for _, id := range []string{"a\x00b", "\xff", strings.Repeat("x", txn.MaxID+1)} {
		_, _, load := store.Load(ctx, id)
		_, _, claim := store.Claim(ctx, id)
		for name, err := range map[string]error{
			"save": store.SaveDocument(ctx, id, []byte(sampleDocument)), "load": load, "claim": claim,
			"complete": store.Complete(ctx, id), "remove": store.Remove(ctx, id),
		} {
			if !errors.Is(err, db.ErrInvalid) {
				t.Errorf("%s of %.10q: %v", name, id, err)
			}
		}
	}
}

func TestADocumentThatCantBeReadIsNotSaved(t *testing.T) {
	store := openStore(t)
	err := store.SaveDocument(ctx, "r", []byte(`{"run_id":"r"}`))
	if !errors.Is(err, db.ErrInvalid) ||
		!strings.Contains(err.Error(), "missing field `workflow` at line 1 column 14") {
		t.Errorf("saved with %v", err)
	}
	wantList(t, store)
}

func TestSeveralChangesAreOneTransaction(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	again := sample("r")
	again.Iterations = 2
	undo := errors.New("undo")
	err := d.Write(ctx, "pause again", func(tx *db.Tx) error {
		return errors.Join(store.SaveTx(tx, again), claim.CompleteTx(tx), undo)
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	wantList(t, store)
	check(t, d.Write(ctx, "pause again", func(tx *db.Tx) error {
		return errors.Join(store.SaveTx(tx, again), claim.CompleteTx(tx))
	}))
	wantList(t, store, "r")
	wantRecovered(t, store, 0)
}

func TestClaim_SpoiledDocumentIsRefused(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	save(t, store, "r")
	document, _, err := store.LoadDocument(ctx, "r")
	check(t, err)
	edit := func(to string) {
		check(t, d.Write(ctx, "edit by hand", func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE checkpoint_documents SET document = CAST(? AS BLOB), checksum = NULL`, to)
			return err
		}))
	}
	edit(strings.Replace(string(document), `"prompt"`, `"Prompt"`, 1))
	for range 2 {
		if _, _, err := store.Claim(ctx, "r"); !errors.Is(err, db.ErrCorrupt) ||
			!strings.Contains(err.Error(), "missing field `prompt`") {
			t.Errorf("claimed with %v", err)
		}
		if _, _, err := store.Load(ctx, "r"); !errors.Is(err, db.ErrCorrupt) {
			t.Errorf("loaded with %v", err)
		}
		wantList(t, store, "r")
		wantRecovered(t, store, 0)
	}
	edit(strings.Replace(string(document), "approve?", "approved", 1))
	p, err := mustClaim(t, store, "r").Paused()
	if err != nil || p.Prompt != "approved" {
		t.Errorf("claimed %+v, %v", p, err)
	}
}

func TestListsComeInPagesAndByPrefix(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	for _, id := range []string{"a", "a-1", "a-2", "b"} {
		save(t, store, id)
	}
	mustClaim(t, store, "a-1")
	save(t, store, "a-1")
	var got []string
	for one, err := range store.All(ctx, checkpoints.Filter{}) {
		check(t, err)
		got = append(got, one.RunID+" "+string(one.State))
	}
	if want := []string{"a paused", "a-1 claimed", "a-1 paused", "a-2 paused", "b paused"}; !slices.Equal(got,
		want) {
		t.Errorf("the list is %q", got)
	}
	for state, want := range map[checkpoints.State]int{checkpoints.Claimed: 1, checkpoints.Paused: 4} {
		if page, err := store.Page(ctx, checkpoints.Filter{State: state}, db.At{}); err != nil ||
			len(page.Items) != want {
			t.Errorf("%d are %s, %v; want %d", len(page.Items), state, err, want)
		}
	}
	if found, err := store.Find(ctx, "a-", 0); err != nil || len(found) != 3 ||
		found[0] != (checkpoints.Ref{RunID: "a-1", State: checkpoints.Claimed}) {
		t.Errorf("found %+v, %v", found, err)
	}
	page, err := store.Page(ctx, checkpoints.Filter{}, db.At{Limit: 2})
	check(t, err)
	other := checkpoints.NewStore(d, checkpoints.Options{Scope: "other"})
	for what, at := range map[string]db.At{"no cursor": {After: "x"}, "a limit": {Limit: 1001}} {
		if _, err := store.Page(ctx, checkpoints.Filter{}, at); !errors.Is(err, db.ErrInvalid) ||
			db.Hint(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := other.HistoryPage(ctx, checkpoints.HistoryFilter{}, at); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s in the history of an empty scope: %v", what, err)
		}
	}
	save(t, other, "a")
	if _, err := other.Page(ctx, checkpoints.Filter{}, db.At{After: page.Next}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("another scope's cursor: %v", err)
	}
	if _, err := store.Page(ctx, checkpoints.Filter{State: "lost"}, db.At{}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("no state: %v", err)
	}
}

func TestGetDelete_NameOneCheckpointOrMiss(t *testing.T) {
	store := openStore(t)
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	if one, err := store.Get(ctx, checkpoints.Ref{RunID: "r"}); err != nil || one.State != checkpoints.Claimed {
		t.Errorf("with none waiting: %+v, %v", one, err)
	}
	save(t, store, "r")
	if one, err := store.Get(ctx, checkpoints.Ref{RunID: "r"}); err != nil || one.State != checkpoints.Paused {
		t.Errorf("with one waiting: %+v, %v", one, err)
	}
	check(t, store.Delete(ctx, checkpoints.Ref{RunID: "r", State: checkpoints.Paused}))
	wantList(t, store)
	check(t, claim.Renew(ctx))
	save(t, store, "r")
	check(t, store.Delete(ctx, checkpoints.Ref{RunID: "r"}))
	if err := claim.Renew(ctx); !errors.Is(err, db.ErrLeaseLost) {
		t.Errorf("a claim that was taken away: %v", err)
	}
	for _, ref := range []checkpoints.Ref{{RunID: "r"}, {RunID: "r", State: checkpoints.Claimed}} {
		if _, err := store.Get(ctx, ref); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("get %+v: %v", ref, err)
		}
		if err := store.Delete(ctx, ref); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("delete %+v: %v", ref, err)
		}
	}
}

func TestARunWithoutATimePausesNow(t *testing.T) {
	clock := dbtest.NewClock(time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC))
	store := checkpoints.NewStore(dbtest.Open(t, db.Options{Now: clock.Now}), checkpoints.Options{})
	p := sample("r")
	p.CreatedAt = time.Time{}
	check(t, store.Save(ctx, p))
	back, ok, err := store.Load(ctx, "r")
	if err != nil || !ok || !back.CreatedAt.Equal(clock.Now()) || !p.CreatedAt.IsZero() {
		t.Errorf("paused at %v, %v, %v; the caller's says %v", back.CreatedAt, ok, err, p.CreatedAt)
	}
}
