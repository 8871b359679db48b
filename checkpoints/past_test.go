package checkpoints_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

func history(t testing.TB, s *checkpoints.Store, f checkpoints.HistoryFilter) (list []checkpoints.Past) {
	t.Helper()
	for one, err := range s.History(ctx, f) {
		check(t, err)
		list = append(list, one)
	}
	return list
}

func endings(list []checkpoints.Past) string {
	var out strings.Builder
	for _, one := range list {
		fmt.Fprintf(&out, "%s:%s ", one.RunID, one.Ending)
	}
	return out.String()
}

func TestClaim_CompletedIsOnlyInHistory(t *testing.T) {
	now := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	d := dbtest.Open(t, db.Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	save(t, store, "r")
	claim := mustClaim(t, store, "r")
	check(t, claim.Decide(ctx, checkpoints.Decision{Decision: "approved", By: "ada"}))

	wantList(t, store)
	wantNoClaim(t, store, "r")
	if got := contents(t, store); got != "" {
		t.Errorf("there is %s", got)
	}
	list := history(t, store, checkpoints.HistoryFilter{})
	if len(list) != 1 {
		t.Fatalf("the history is %v", list)
	}
	one := list[0]
	if one.Decision != (checkpoints.Decision{Decision: "approved", By: "ada"}) || one.Epoch != claim.Epoch() ||
		one.Program == "" || one.Pid == 0 ||
		one.Prompt != "approve?" || !one.ClaimedAt.Equal(claim.ClaimedAt()) ||
		!one.CompletedAt.After(one.ClaimedAt) || one.PausedAt.IsZero() {
		t.Errorf("it says %+v", one)
	}

	save(t, store, "r") // the run may come again
	check(t, mustClaim(t, store, "r").Complete(ctx))
	got := endings(history(t, store, checkpoints.HistoryFilter{RunID: "r"}))
	if got != "r:completed r:completed " {
		t.Errorf("after the second time: %s", got)
	}
	if again := history(t, store, checkpoints.HistoryFilter{})[0]; again.Epoch <= claim.Epoch() {
		t.Errorf("epoch %d after %d", again.Epoch, claim.Epoch())
	}
}

func TestHistory_KeepsEndingsOfResumedClaims(t *testing.T) {
	store := openStore(t)
	save(t, store, "by id")
	mustClaim(t, store, "by id")
	check(t, store.Complete(ctx, "by id"))
	check(t, store.Complete(ctx, "by id"))

	save(t, store, "claimed on")
	mustClaim(t, store, "claimed on")
	save(t, store, "claimed on")
	mustClaim(t, store, "claimed on")

	save(t, store, "paused on")
	mustClaim(t, store, "paused on")
	save(t, store, "paused on")
	wantRecovered(t, store, 1) // the claim on the second pause of "claimed on"

	save(t, store, "removed")
	mustClaim(t, store, "removed")
	check(t, store.Remove(ctx, "removed"))
	save(t, store, "released")
	check(t, mustClaim(t, store, "released").Release(ctx))

	want := "paused on:superseded claimed on:superseded by id:completed "
	if got := endings(history(t, store, checkpoints.HistoryFilter{})); got != want {
		t.Errorf("the history is %s, want %s", got, want)
	}
}

func TestTheHistoryIsReadInPages(t *testing.T) {
	store := openStore(t)
	for i := range 5 {
		run := fmt.Sprintf("r%d", i%2)
		save(t, store, run)
		check(t, mustClaim(t, store, run).Complete(ctx))
	}
	for f, want := range map[checkpoints.HistoryFilter]string{
		{}:            "r0:completed r1:completed r0:completed r1:completed r0:completed ",
		{RunID: "r1"}: "r1:completed r1:completed ",
	} {
		got := ""
		for at := (db.At{Limit: 1}); ; {
			page, err := store.HistoryPage(ctx, f, at)
			check(t, err)
			got += endings(page.Items)
			if at.After = page.Next; at.After == "" {
				break
			}
		}
		if got != want {
			t.Errorf("%+v: %s, want %s", f, got, want)
		}
	}
	page, err := store.HistoryPage(ctx, checkpoints.HistoryFilter{}, db.At{Limit: 1})
	check(t, err)
	if _, err := store.HistoryPage(ctx, checkpoints.HistoryFilter{RunID: "r1"},
		db.At{After: page.Next}); err == nil {
		t.Error("another list's cursor is taken")
	}
}

func TestACompletedImportHasNoOwner(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	check(t, d.Write(ctx, "import", func(tx *db.Tx) error {
		return checkpoints.PutImported(tx, checkpoints.Claimed, "torn", []byte("{"))
	}))
	check(t, store.Complete(ctx, "torn"))
	list := history(t, store, checkpoints.HistoryFilter{})
	if len(list) != 1 || list[0].Epoch != 0 || list[0].Pid != 0 || !list[0].PausedAt.IsZero() ||
		list[0].Ending != checkpoints.Completed {
		t.Errorf("the history is %+v", list)
	}
}
