package agents_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestTx_CallsSeeEachOther(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	r := agents.NewRegistry(d, agents.Options{})
	gone := entry("gone", agents.Active)
	gone.Thread, gone.PID, gone.BootID = "main", p(uint32(1<<30)), agents.CurrentBootID()
	save(t, r, gone)
	no := errors.New("no")
	together := func(last error) error {
		return d.Write(ctx, "begin", func(tx *db.Tx) error {
			out, err := r.TryReserveThreadTx(tx, "main", func(id string) (agents.Entry, error) {
				e := entry("next", agents.Active)
				e.Thread, e.NativeActorKey, e.ClientInstanceID, e.HeddleSessionID = "main", p("actor"), p("client"),
					p("session")
				return e, nil
			})
			if err != nil || out.Reserved == nil || out.Reserved.SessionID != "next" {
				t.Errorf("%+v, %v", out, err)
			}
			if e, err := r.GetTx(&tx.Rx, "next"); err != nil || e.SessionID != "next" {
				t.Errorf("%q, %v", e.SessionID, err)
			}
			for name, f := range map[string]agents.Filter{
				"actor": {NativeActorKey: p("actor")}, "client": {ClientInstanceID: p("client")},
				"session": {HeddleSessionID: p("session")},
			} {
				f.Statuses = []agents.Status{agents.Active}
				page, err := r.PageTx(&tx.Rx, f, db.At{Limit: 1})
				if err != nil || len(page.Items) != 1 || page.Items[0].SessionID != "next" {
					t.Errorf("%s: %v, %v", name, page.Items, err)
				}
			}
			if chain, err := r.ActorChainForSessionTx(&tx.Rx, "next"); len(chain) != 1 || err != nil {
				t.Errorf("the chain is %v (%v)", chain, err)
			}
			list, err := r.PageTx(&tx.Rx, agents.Filter{}, db.At{})
			if err != nil || len(list.Items) != 2 {
				t.Errorf("%d are listed (%v)", len(list.Items), err)
			}
			second, err := r.TryReserveThreadTx(tx, "main", nil)
			if err != nil || second.LiveOwner == nil || second.LiveOwner.SessionID != "next" {
				t.Errorf("a second one: %+v, %v", second, err)
			}
			return last
		})
	}
	statuses := func() (list []string) {
		for e, err := range r.All(ctx, agents.Filter{}) {
			list = append(list, e.SessionID+" "+string(e.Status))
			if err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(list)
		return list
	}
	if err := together(no); !errors.Is(err, no) {
		t.Error(err)
	}
	if got := statuses(); !slices.Equal(got, []string{"gone active"}) {
		t.Errorf("after an error there are %v", got)
	}
	if err := together(nil); err != nil {
		t.Error(err)
	}
	if got := statuses(); !slices.Equal(got, []string{"gone abandoned", "next active"}) {
		t.Errorf("there are %v", got)
	}
}

func TestATransactionPutsNothingAside(t *testing.T) {
	clock := dbtest.NewClock(time.Now())
	r := agents.NewRegistry(dbtest.Open(t, db.Options{Now: clock.Now}), agents.Options{})
	save(t, r, entry("old", agents.Active))
	if err := r.UpdateStatus(ctx, "old", agents.Complete); err != nil {
		t.Fatal(err)
	}
	clock.Advance(8 * 24 * time.Hour)
	err := agents.FileOf(r).Read(ctx, "look", func(rx *db.Rx) error {
		page, err := r.PageTx(rx, agents.Filter{}, db.At{})
		if len(page.Items) > 0 || err != nil {
			t.Errorf("%v, %v", page.Items, err)
		}
		if _, err := r.GetTx(rx, "old"); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("a stale one is found (%v)", err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := agents.CountAside(ctx, r); n != 0 || err != nil {
		t.Errorf("%d are aside (%v)", n, err)
	}
	if _, ok, err := r.Load(ctx, "old"); ok || err != nil {
		t.Errorf("a stale one is loaded (%v)", err)
	}
	if n, err := agents.CountAside(ctx, r); n != 1 || err != nil {
		t.Errorf("after Load %d are aside (%v)", n, err)
	}
}

func TestFindOrCreate_InTransaction(t *testing.T) {
	r := newRegistry(t)
	build := func(id string) (agents.Entry, error) { e := entry(id, agents.Active); return e, nil }
	any := func(agents.Entry) bool { return true }
	failure := errors.New("the function fails")
	for _, step := range []struct {
		end     error
		created bool
	}{{failure, true}, {nil, true}, {nil, false}} {
		var e agents.Entry
		err := agents.FileOf(r).Write(ctx, "find or create", func(tx *db.Tx) error {
			found, created, err := r.FindOrCreateActiveEntryTx(tx, any,
				func(e *agents.Entry) { e.BaseState = "again" }, build)
			if created != step.created {
				t.Errorf("created: %v", created)
			}
			e = found
			return errors.Join(err, step.end)
		})
		if !errors.Is(err, step.end) {
			t.Fatal(err)
		}
		got, ok, err := r.Load(ctx, e.SessionID)
		if err != nil || ok != (step.end == nil) || ok && (got.BaseState == "again") == step.created {
			t.Errorf("it is there: %v, with %q (%v)", ok, got.BaseState, err)
		}
	}
}
