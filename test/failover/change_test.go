//go:build postgres

package failover_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// elsewhere is the scope in which things come and go.
const elsewhere = "elsewhere"

// A kind of things that come and go.
type kind struct {
	make  func(ctx context.Context, id string) (remove func(*db.Tx) error, err error)
	keep  func(ctx context.Context) error // looks after all of them, and takes none away that lives
	there func(ctx context.Context) ([]string, error)
}

// kinds returns what can be done to them, by kind.
func kinds(d *db.DB) map[string]kind {
	rs := runs.NewStore(d, runs.Options{Scope: elsewhere})
	ls := live.NewStore(d, live.Options{Scope: elsewhere})
	rg := agents.NewRegistry(d, agents.Options{Scope: elsewhere})
	cs := checkpoints.NewStore(d, checkpoints.Options{Scope: elsewhere})
	rts := workers.NewRuntimes(d, elsewhere)
	open := func(ctx context.Context) (*workers.Runtime, error) {
		return workers.Open(ctx, d, workers.RuntimeOptions{Scope: elsewhere, RuntimeID: shared})
	}
	old := db.Policy{Age: 24 * time.Hour}
	return map[string]kind{
		"runs": {
			make: func(ctx context.Context, id string) (func(*db.Tx) error, error) {
				r, err := rs.Begin(ctx, runs.Started{RunID: id, AgentID: id}, runs.BeginOptions{})
				if err == nil {
					err = r.Append(ctx, turn("one"), turn("two"))
				}
				if err == nil {
					err = r.End(ctx, runs.Termination{})
				}
				return func(tx *db.Tx) error { return rs.DeleteTx(tx, r.Ref()) }, err
			},
			keep: func(ctx context.Context) error {
				_, err := rs.Recover(ctx)
				if err == nil {
					_, err = rs.Prune(ctx, old)
				}
				return err
			},
			there: func(ctx context.Context) (ids []string, err error) {
				for one, err := range rs.All(ctx, runs.Filter{}) {
					if err != nil {
						return nil, err
					}
					ids = append(ids, one.Ref.RunID)
				}
				return ids, nil
			},
		},
		"live": {
			make: func(ctx context.Context, id string) (func(*db.Tx) error, error) {
				r, err := ls.Begin(ctx, live.Start{ID: id, SessionID: session})
				if err == nil {
					err = r.End(ctx, live.TextDelta("one"))
				}
				return func(tx *db.Tx) error { return ls.DeleteTx(tx, id) }, err
			},
			keep: func(ctx context.Context) error {
				_, err := ls.Recover(ctx)
				if err == nil {
					_, err = ls.Prune(ctx, old)
				}
				return err
			},
			there: func(ctx context.Context) (ids []string, err error) {
				for one, err := range ls.All(ctx, live.Filter{}) {
					if err != nil {
						return nil, err
					}
					ids = append(ids, one.ID)
				}
				return ids, nil
			},
		},
		"agents": {
			make: func(ctx context.Context, id string) (func(*db.Tx) error, error) {
				err := rg.Save(ctx, agents.Entry{SessionID: id, Thread: id, Status: agents.Active, StartedAt: time.Now()})
				if err == nil {
					err = rg.LogContextQuery(ctx, id, agents.ContextQuery{Path: id})
				}
				return func(tx *db.Tx) error { return rg.DeleteTx(tx, id) }, err
			},
			keep: func(ctx context.Context) error {
				_, err := rg.ReapDead(ctx)
				if err == nil {
					_, err = rg.Prune(ctx, old)
				}
				return err
			},
			there: func(ctx context.Context) (ids []string, err error) {
				list, err := rg.List(ctx)
				for _, one := range list {
					ids = append(ids, one.SessionID)
				}
				return ids, err
			},
		},
		"checkpoints": {
			make: func(ctx context.Context, id string) (func(*db.Tx) error, error) {
				return func(tx *db.Tx) error { return cs.RemoveTx(tx, id) }, cs.Save(ctx, paused(id))
			},
			keep: func(ctx context.Context) error {
				_, err := cs.Recover(ctx)
				if err == nil {
					_, err = cs.Prune(ctx, old)
				}
				return err
			},
			there: cs.List,
		},
		"workers": { // which assign their ids themselves
			make: func(ctx context.Context, id string) (func(*db.Tx) error, error) {
				r, err := open(ctx)
				if err != nil {
					return nil, err
				}
				var w workers.WorkerDetail
				err = d.WriteLocked(ctx, "make a worker", func(tx *db.Tx) (err error) {
					if w, err = r.CreateWorkerTx(tx, workers.ToolsLess(workers.TaskIntent(id),
						workers.ProfileSelector{})); err == nil {
						_, err = r.SendInputTx(tx, w.WorkerRef, workers.UserInput(id))
					}
					return err
				})
				return func(tx *db.Tx) error { return r.DeleteTx(tx, w.WorkerRef) }, err
			},
			keep: func(ctx context.Context) error {
				_, err := rts.Prune(ctx, old)
				return err
			},
			there: func(ctx context.Context) (ids []string, err error) {
				r, err := open(ctx)
				if err != nil {
					return nil, err
				}
				for one, err := range r.All(ctx, workers.WorkerFilter{}) {
					if err != nil {
						return nil, err
					}
					ids = append(ids, one.Intent.Objective)
				}
				return ids, nil
			},
		},
	}
}

// The lanes of notes about things that are made and removed: made/KIND, gone/KIND and kept/KIND.
const (
	made = "made/"
	gone = "gone/"
	kept = "kept/"
)

// changes makes things of each kind, takes most of them away again, in functions of both kinds, and
// looks after all.
func (w *writer) changes(ctx context.Context) (lanes []func()) {
	for name, k := range kinds(w.d) {
		lanes = append(lanes, func() {
			for n := 1; w.rest(); n++ {
				id := fmt.Sprintf("%s-%d", w.me, n)
				w.say(began, made+name, id)
				remove, err := k.make(ctx, id)
				if !w.told(made+name, id, err) {
					continue
				}
				write := w.d.Write
				switch n % 3 {
				case 0:
					continue
				case 1:
					write = w.d.WriteLocked
				}
				w.say(began, gone+name, id)
				w.told(gone+name, id, write(ctx, "remove it", remove))
			}
		}, func() {
			for n := 1; w.rest(); n++ {
				if n%10 == 0 {
					w.told(kept+name, "", k.keep(ctx))
				}
			}
		})
	}
	return lanes
}

// readThings returns the things that are there in the end, by kind.
func readThings(t *testing.T, d *db.DB) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for name, k := range kinds(d) {
		ids, err := k.there(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all[name] = ids
	}
	return all
}

// judgeThings: a thing that was made is there once, unless a process tried to remove it; a thing
// that was removed is not there.
func judgeThings(t complainer, things map[string][]string, said []note) {
	t.Helper()
	heard := map[string]bool{}
	for _, n := range said {
		heard[n.kind+" "+n.lane+" "+n.text] = true
	}
	for name, ids := range things {
		there := map[string]bool{}
		for _, id := range ids {
			switch {
			case there[id]:
				t.Errorf("%s: %s is there twice", name, id)
			case !heard[began+" "+made+name+" "+id]:
				t.Errorf("%s: %s is there, and nobody made it", name, id)
			case heard[acked+" "+gone+name+" "+id]:
				t.Errorf("%s: %s was taken away, and is there", name, id)
			}
			there[id] = true
		}
		for _, n := range said {
			if n.kind == acked && n.lane == made+name && !there[n.text] && !heard[began+" "+gone+name+" "+n.text] {
				t.Errorf("%s: %s was made, and is not there", name, n.text)
			}
		}
	}
}
