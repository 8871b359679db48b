package agents_test

import (
	"context"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/dbtest"
)

var ctx = context.Background()

// newRegistry gives a registry on a file of its own.
func newRegistry(t testing.TB) *agents.Registry {
	t.Helper()
	return agents.NewRegistry(dbtest.Open(t, db.Options{}), agents.Options{})
}

func entry(id string, status agents.Status) agents.Entry {
	return agents.Entry{
		SessionID: id, Thread: "agent/" + id, BaseState: "hd-base", StartedAt: time.Now(),
		Status: status,
	}
}

func p[T any](v T) *T { return &v }

// save stores entries and fails the test if it can't.
func save(t testing.TB, r *agents.Registry, entries ...agents.Entry) {
	t.Helper()
	for _, e := range entries {
		if err := r.Save(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
}

// load gives a stored entry and fails the test if there is none.
func load(t testing.TB, r *agents.Registry, id string) agents.Entry {
	t.Helper()
	e, ok, err := r.Load(ctx, id)
	if err != nil || !ok {
		t.Fatalf("load %s: found %v, %v", id, ok, err)
	}
	return e
}
