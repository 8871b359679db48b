package checkpoints_test

import "testing"

// The original's own tests, translated.

func TestSaveLoadRemoveRoundtrip(t *testing.T) {
	store := openStore(t)
	if _, ok, err := store.Load(ctx, "missing"); ok || err != nil {
		t.Fatalf("load of a missing run: %v, %v", ok, err)
	}
	save(t, store, "run-1")
	loaded, ok, err := store.Load(ctx, "run-1")
	if err != nil || !ok {
		t.Fatalf("load: %v, %v", ok, err)
	}
	if loaded.RunID != "run-1" || loaded.OutputKey != "approval" || loaded.Prompt != "approve?" {
		t.Errorf("loaded %+v", loaded)
	}
	wantList(t, store, "run-1")
	for range 2 {
		if err := store.Remove(ctx, "run-1"); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := store.Load(ctx, "run-1"); ok || err != nil {
			t.Fatalf("load of a removed run: %v, %v", ok, err)
		}
	}
}

func TestClaimIsExactlyOnce(t *testing.T) {
	store := openStore(t)
	save(t, store, "run-x")
	mustClaim(t, store, "run-x")
	wantList(t, store)
	wantNoClaim(t, store, "run-x")
	for range 2 {
		if err := store.Complete(ctx, "run-x"); err != nil {
			t.Fatal(err)
		}
	}
	wantNoClaim(t, store, "run-x")
}

func TestRecoverRearmsOrphanedInflight(t *testing.T) {
	store := openStore(t)
	save(t, store, "crashed")
	mustClaim(t, store, "crashed")
	wantNoClaim(t, store, "crashed")
	wantRecovered(t, store, 1)
	mustClaim(t, store, "crashed")
	if err := store.Complete(ctx, "crashed"); err != nil {
		t.Fatal(err)
	}
	// The original's stale marker is a claim that is still there when the run has paused again.
	save(t, store, "both")
	mustClaim(t, store, "both")
	save(t, store, "both")
	wantRecovered(t, store, 0)
	wantRecovered(t, store, 0)
	mustClaim(t, store, "both")
}
