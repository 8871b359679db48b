package checkpoints_test

import (
	"errors"
	"slices"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestTx_CallsHappenTogetherOrNever(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s := checkpoints.NewStore(d, checkpoints.Options{})
	for _, id := range []string{"claimed", "removed"} {
		check(t, s.SaveDocument(t.Context(), id, document(t, id)))
	}
	no := errors.New("no")
	together := func(last error) error {
		return d.Write(t.Context(), "resume", func(tx *db.Tx) error {
			claim, ok, err := s.ClaimTx(tx, "claimed")
			if err != nil {
				return err
			}
			if !ok || claim.RunID() != "claimed" {
				t.Errorf("claim: %+v, %v", claim, ok)
			}
			if err := s.RemoveTx(tx, "removed"); err != nil {
				return err
			}
			return last
		})
	}
	waiting := func() []string {
		list, err := s.List(t.Context())
		check(t, err)
		slices.Sort(list)
		return list
	}
	if err := together(no); !errors.Is(err, no) {
		t.Errorf("the error is %v", err)
	}
	if got := waiting(); !slices.Equal(got, []string{"claimed", "removed"}) {
		t.Errorf("after an error %q wait", got)
	}
	check(t, together(nil))
	if got := waiting(); len(got) > 0 {
		t.Errorf("afterwards %q wait", got)
	}
}

func document(t *testing.T, id string) []byte {
	t.Helper()
	text, err := (&checkpoints.PausedWorkflow{RunID: id}).Document()
	check(t, err)
	return text
}

func TestRecover_GoesOverAllPages(t *testing.T) {
	checkpoints.InSmallTurns(t)
	path := dbtest.Path(t)
	gone, err := db.Open(t.Context(), path, db.Options{})
	check(t, err)
	save(t, checkpoints.NewStore(gone, checkpoints.Options{}), "e")
	mustClaim(t, checkpoints.NewStore(gone, checkpoints.Options{}), "e")
	check(t, gone.Close())
	d := dbtest.OpenAt(t, path, db.Options{})
	s := checkpoints.NewStore(d, checkpoints.Options{})
	ids := []string{"", "a", "b", "c", "d"}
	var last *checkpoints.Claim
	for _, id := range ids {
		check(t, s.SaveDocument(t.Context(), id, document(t, id)))
		last = mustClaim(t, s, id)
	}
	if n, err := s.Recover(t.Context()); n != 1 || err != nil {
		t.Errorf("of one dead, and the living, %d are recovered (%v)", n, err)
	}
	check(t, d.Read(t.Context(), "reattach", func(rx *db.Rx) error {
		again, err := s.ReattachTx(rx, "d", last.Epoch())
		if err != nil || again.ClaimedAt() != last.ClaimedAt() {
			t.Errorf("%+v, %v", again, err)
		}
		return nil
	}))
	if n, err := s.RecoverOrphaned(t.Context()); n != len(ids) || err != nil {
		t.Errorf("%d are recovered (%v)", n, err)
	}
	wantList(t, s, append(ids, "e")...)
	owners := 0
	check(t, d.Read(t.Context(), "count",
		func(rx *db.Rx) error { return rx.Get(&owners, `SELECT count(*) FROM owners`) }))
	if owners != 1 {
		t.Errorf("%d processes are registered: the dead one is not forgotten", owners)
	}
}
