package checkpoints_test

import (
	"context"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestMain(m *testing.M) {
	dbtest.Main(m, map[string]dbtest.Program{"claimer": claimer, "worker": worker})
}

var ctx = context.Background()

// openStore gives a store in a file of its own.
func openStore(t testing.TB) *checkpoints.Store {
	t.Helper()
	return checkpoints.NewStore(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}), checkpoints.Options{})
}

func save(t testing.TB, s *checkpoints.Store, runID string) {
	t.Helper()
	if err := s.Save(ctx, sample(runID)); err != nil {
		t.Fatal(err)
	}
}

func mustClaim(t testing.TB, s *checkpoints.Store, runID string) *checkpoints.Claim {
	t.Helper()
	claim, ok, err := s.Claim(ctx, runID)
	if err != nil || !ok {
		t.Fatalf("claim %q: %v, %v", runID, ok, err)
	}
	return claim
}

func wantNoClaim(t testing.TB, s *checkpoints.Store, runID string) {
	t.Helper()
	if _, ok, err := s.Claim(ctx, runID); ok || err != nil {
		t.Fatalf("claim %q: %v, %v; it should find nothing", runID, ok, err)
	}
}

func wantList(t testing.TB, s *checkpoints.Store, want ...string) {
	t.Helper()
	got, err := s.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("the list is %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("the list is %q, want %q", got, want)
		}
	}
}

func wantRecovered(t testing.TB, s *checkpoints.Store, want int) {
	t.Helper()
	if got, err := s.RecoverOrphaned(ctx); err != nil || got != want {
		t.Fatalf("recovered %d, %v; want %d", got, err, want)
	}
}
