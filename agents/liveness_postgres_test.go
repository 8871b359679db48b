//go:build postgres

package agents_test

import (
	"math"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// The pid is one that no process has here.
func TestPostgres_OtherMachinesAgentIsNotDead(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Postgres(t), db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() }) //nolint:errcheck // the database is dropped next
	r := agents.NewRegistry(d, agents.Options{})
	pid, elsewhere := uint32(math.MaxInt32), "another machine"
	for id, boot := range map[string]*string{
		"agent-elsewhere": &elsewhere, "agent-unknown": nil,
		"agent-here": agents.CurrentBootID(),
	} {
		if err := r.Save(t.Context(), agents.Entry{
			SessionID: id, Status: agents.Active, Thread: id, PID: &pid,
			BootID: boot, StartedAt: time.Now(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, reap := range []func() (int, error){
		func() (int, error) { return r.ReapDead(t.Context()) },
		func() (int, error) { return r.Recover(t.Context()) },
	} {
		if _, err := reap(); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]agents.Status{
		"agent-elsewhere": agents.Active,
		"agent-unknown":   agents.Active, "agent-here": agents.Abandoned,
	} {
		e, err := r.Get(t.Context(), id)
		if err != nil || e.Status != want {
			t.Errorf("%s is %v: %v", id, e.Status, err)
		}
	}
}
