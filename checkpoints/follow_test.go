package checkpoints_test

import (
	"errors"
	"iter"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// spelled is an item as these tests compare it.
func spelled(f checkpoints.Followed) string {
	switch {
	case f.Gone:
		return f.Of + " gone"
	case f.What == db.StatusChanged:
		return f.Of + " is " + f.Status
	}
	return f.Of + " " + string(f.Item.State) + " at " + f.Item.PausedStageID
}

func listen(t *testing.T, items iter.Seq2[checkpoints.Followed, error]) *dbtest.Listener[string,
	checkpoints.Summary] {
	t.Helper()
	return dbtest.Listen(t, items, spelled)
}

func pauseAt(t *testing.T, s *checkpoints.Store, run, stage string) {
	t.Helper()
	check(t, s.Save(t.Context(), &checkpoints.PausedWorkflow{RunID: run, PausedStageID: stage}))
}

func claimed(t *testing.T, s *checkpoints.Store, run string) *checkpoints.Claim {
	t.Helper()
	claim, ok, err := s.Claim(t.Context(), run)
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	return claim
}

func TestFollow_CheckpointStatusUntilRemoved(t *testing.T) {
	for _, path := range []string{":memory:", dbtest.Path(t)} {
		ctx := t.Context()
		s := checkpoints.NewStore(dbtest.OpenAt(t, path, db.Options{}), checkpoints.Options{})
		pauseAt(t, s, "a", "one")
		l, all := listen(t, s.Follow(ctx, checkpoints.Ref{RunID: "a"}, "")),
			listen(t, s.FollowAll(ctx, checkpoints.Filter{}))
		l.Hears("a paused at one")
		pauseAt(t, s, "a", "two")
		l.Hears("a paused at two")
		all.Hears("a paused at two")
		claim := claimed(t, s, "a")
		l.Hears("a claimed at two", "a is claimed")
		all.Hears("a claimed at two", "a is claimed")
		before := l.Cursor
		check(t, claim.Renew(ctx)) // not told
		check(t, claim.Release(ctx))
		l.Hears("a paused at two", "a is paused")
		all.Hears("a paused at two", "a is paused")
		listen(t, s.Follow(ctx, checkpoints.Ref{RunID: "a"}, before)).Hears("a paused at two", "a is paused")
		claim = claimed(t, s, "a")
		l.Hears("a claimed at two", "a is claimed")
		all.Hears("a claimed at two", "a is claimed")
		pauseAt(t, s, "a", "three") // another checkpoint of the run
		all.Hears("a paused at three")
		check(t, claim.Complete(ctx))
		l.EndsWith(db.ErrCursorExpired)
		all.Hears("a gone")
		listen(t, s.Follow(ctx, checkpoints.Ref{RunID: "a"}, before)).EndsWith(db.ErrCursorExpired)
		listen(t, s.Follow(ctx, checkpoints.Ref{RunID: "a", State: checkpoints.Claimed},
			"")).EndsWith(db.ErrNotFound)
		listen(t, s.Follow(ctx, checkpoints.Ref{RunID: "a"}, "")).Hears("a paused at three")
		check(t, s.Remove(ctx, "a"))
		all.Hears("a gone")
	}
}

func TestAFilterTakesACheckpointFromWhenItPassesOn(t *testing.T) {
	s := checkpoints.NewStore(dbtest.Open(t, db.Options{}), checkpoints.Options{})
	pauseAt(t, s, "a", "one")
	pauseAt(t, s, "b", "one")
	l := listen(t, s.FollowAll(t.Context(), checkpoints.Filter{State: checkpoints.Claimed}))
	check(t, s.Remove(t.Context(), "a"))
	claim := claimed(t, s, "b")
	l.Hears("b claimed at one", "b is claimed")
	check(t, claim.Release(t.Context()))
	l.Hears("b paused at one", "b is paused")
	listen(t, s.FollowAll(t.Context(), checkpoints.Filter{State: "asleep"})).EndsWith(db.ErrInvalid)
}

func TestCursor_OtherCheckpointScopeOrListIsInvalid(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	s, other := checkpoints.NewStore(d, checkpoints.Options{}),
		checkpoints.NewStore(d, checkpoints.Options{Scope: "other"})
	for _, one := range []*checkpoints.Store{s, other} {
		pauseAt(t, one, "a", "one")
		pauseAt(t, one, "b", "one")
	}
	a := checkpoints.Ref{RunID: "a"}
	cursor, err := s.CursorBefore(t.Context(), a, 1)
	check(t, err)
	page, err := s.Page(t.Context(), checkpoints.Filter{}, db.At{Limit: 1})
	check(t, err)
	for _, items := range []iter.Seq2[checkpoints.Followed, error]{
		s.Follow(t.Context(), checkpoints.Ref{RunID: "b"}, cursor), other.Follow(t.Context(), a, cursor),
		s.Follow(t.Context(), a, page.Next),
	} {
		listen(t, items).EndsWith(db.ErrInvalid)
	}
	listen(t, s.Follow(t.Context(), a, cursor)).Hears("a paused at one")
	cursor, err = s.CursorBefore(t.Context(), a, 0)
	check(t, err)
	l := listen(t, s.Follow(t.Context(), a, cursor))
	claimed(t, s, "a")
	l.Hears("a claimed at one", "a is claimed")
	if _, err := s.CursorBefore(t.Context(), a, -1); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
		t.Errorf("-1 changes: %v", err)
	}
	if _, err := s.CursorBefore(t.Context(), checkpoints.Ref{RunID: "none"}, 0); !errors.Is(err,
		db.ErrNotFound) {
		t.Errorf("of no checkpoint: %v", err)
	}
}
