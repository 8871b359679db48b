package checkpoints_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// mapStore is what a store is meant to be, in maps: one process, and a file that is never opened again.
type mapStore struct {
	waiting, claimed map[string]string // by run, the prompt
	epoch            map[string]int64  // of the claim
}

// Any sequence of calls by one process does to the store what it does to two maps. Each example has
// a scope of its own.
func TestTheStoreIsTwoMaps(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	examples := 0
	rapid.Check(t, func(rt *rapid.T) {
		examples++
		store := checkpoints.NewStore(d, checkpoints.Options{Scope: fmt.Sprint("example ", examples)})
		m := mapStore{map[string]string{}, map[string]string{}, map[string]int64{}}
		var handles []*checkpoints.Claim
		ids := rapid.SampledFrom([]string{"", "a", "b", "a/b"})
		saves := 0
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) { m.compare(rt, store) },
			"save": func(rt *rapid.T) {
				saves++
				p := sample(ids.Draw(rt, "run"))
				p.Prompt = fmt.Sprint("save ", saves)
				must(rt, store.Save(ctx, p))
				m.waiting[p.RunID] = p.Prompt
			},
			"claim": func(rt *rapid.T) {
				id := ids.Draw(rt, "run")
				claim, ok, err := store.Claim(ctx, id)
				must(rt, err)
				prompt, waits := m.waiting[id]
				if ok != waits {
					rt.Fatalf("claim %q: %v", id, ok)
				}
				if !ok {
					return
				}
				p, err := claim.Paused()
				must(rt, err)
				if p.Prompt != prompt || claim.Epoch() <= m.epoch[id] {
					rt.Fatalf("claimed %q with epoch %d, want %q above %d", p.Prompt, claim.Epoch(), prompt, m.epoch[id])
				}
				delete(m.waiting, id)
				m.claimed[id], m.epoch[id] = prompt, claim.Epoch()
				handles = append(handles, claim)
			},
			"complete": func(rt *rapid.T) {
				if len(handles) == 0 {
					return
				}
				claim := rapid.SampledFrom(handles).Draw(rt, "claim")
				err := claim.Complete(ctx)
				_, held := m.claimed[claim.RunID()]
				if held = held && m.epoch[claim.RunID()] == claim.Epoch(); held != (err == nil) || err != nil &&
					!errors.Is(err, db.ErrLeaseLost) {
					rt.Fatalf("complete %q of epoch %d: %v", claim.RunID(), claim.Epoch(), err)
				}
				if held {
					delete(m.claimed, claim.RunID())
				}
			},
			"complete by id": func(rt *rapid.T) {
				id := ids.Draw(rt, "run")
				must(rt, store.Complete(ctx, id))
				delete(m.claimed, id)
			},
			"remove": func(rt *rapid.T) {
				id := ids.Draw(rt, "run")
				must(rt, store.Remove(ctx, id))
				delete(m.waiting, id)
				delete(m.claimed, id)
			},
			"recover": func(rt *rapid.T) {
				n, err := store.RecoverOrphaned(ctx)
				must(rt, err)
				want := 0
				for id, prompt := range m.claimed {
					if _, again := m.waiting[id]; !again {
						m.waiting[id] = prompt
						want++
					}
				}
				clear(m.claimed)
				if n != want {
					rt.Fatalf("recovered %d, want %d", n, want)
				}
			},
		})
	})
}

func must(rt *rapid.T, err error) {
	rt.Helper()
	if err != nil {
		rt.Fatal(err)
	}
}

// compare looks at all that the store shows.
func (m *mapStore) compare(rt *rapid.T, store *checkpoints.Store) {
	var want []string
	for id, prompt := range m.waiting {
		want = append(want, id+" paused "+prompt)
	}
	for id, prompt := range m.claimed {
		want = append(want, id+" claimed "+prompt)
	}
	slices.Sort(want)
	var got []string
	for at := (db.At{Limit: 2}); ; {
		page, err := store.Page(ctx, checkpoints.Filter{}, at)
		must(rt, err)
		for _, s := range page.Items {
			got = append(got, s.RunID+" "+string(s.State)+" "+s.Prompt)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		rt.Fatalf("the store has %q, want %q", got, want)
	}
}
