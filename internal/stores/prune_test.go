package stores_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// A past is what has ended, for Prune: the newest first.
type past struct {
	things []stores.Ended
	pages  []int                                                          // how many things each look gave
	weighs []string                                                       // what was weighed
	share  int64                                                          // of a transaction
	takes  []take                                                         // removals
	remove func(stores.Ended) (did stores.Removal, took int64, err error) // nil: it is gone, and took nothing
}

// A take is one removal.
type take struct {
	id          string
	transaction int64
	share       int64
}

func newPast(n int) *past {
	p := &past{share: 100}
	for i := range n {
		at := int64(n - i)
		// three at a time
		p.things = append(p.things, stores.Ended{Key: at, ID: fmt.Sprint(at), Of: "a", At: at / 3, Bytes: 10})
	}
	return p
}

func (p *past) pruning() stores.Pruning {
	return stores.Pruning{
		Op: "prune", Store: maintenance.StoreLive, Share: p.share,
		Ended: func(_ *db.Rx, _ int64, after stores.Ended, limit int) (page []stores.Ended, err error) {
			from, _ := slices.BinarySearchFunc(p.things, after, func(a, b stores.Ended) int {
				return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Key, a.Key))
			})
			if from < len(p.things) && p.things[from].Key == after.Key {
				from++
			}
			page = slices.Clone(p.things[from:min(from+limit, len(p.things))])
			p.pages = append(p.pages, len(page))
			return page, nil
		},
		Lock: func(*db.Tx, int64, []stores.Ended) (map[int64]bool, error) { return nil, nil },
		Remove: func(tx *db.Tx, thing stores.Ended, share int64) (did stores.Removal, took int64, err error) {
			p.takes = append(p.takes, take{thing.ID, tx.Batch(), share})
			if p.remove == nil {
				return stores.Removed, 0, nil
			}
			return p.remove(thing)
		},
	}
}

// weighing is pruning that learns of bytes by weighing.
func (p *past) weighing() stores.Pruning {
	pruning := p.pruning()
	pruning.Weigh = func(_ *db.Rx, thing stores.Ended) (int64, error) {
		p.weighs = append(p.weighs, thing.ID)
		return 10, nil
	}
	for i := range p.things {
		p.things[i].Bytes = 0
	}
	return pruning
}

func (p *past) taken() (ids []string) {
	for _, one := range p.takes {
		ids = append(ids, one.id)
	}
	return ids
}

func prune(t *testing.T, d *db.DB, p stores.Pruning, policy db.Policy) db.Pruned {
	t.Helper()
	done, err := stores.Prune(t.Context(), d, p, policy)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestALimitKeepsAsMuchAsItSays(t *testing.T) {
	clock := dbtest.NewClock(time.Unix(0, 5))
	d := dbtest.Open(t, db.Options{Now: clock.Now})
	for name, c := range map[string]struct {
		policy db.Policy
		goes   []string
	}{
		"nothing is said":       {db.Policy{}, nil},
		"two":                   {db.Policy{Count: 2}, []string{"1", "2", "3"}},
		"none":                  {db.Policy{Count: db.KeepNone}, []string{"1", "2", "3", "4", "5"}},
		"two things' bytes":     {db.Policy{Bytes: 20}, []string{"1", "2", "3"}},
		"a byte less than that": {db.Policy{Bytes: 19}, []string{"1", "2", "3", "4"}},
		"no bytes":              {db.Policy{Bytes: db.KeepNone}, []string{"1", "2", "3", "4", "5"}},
		"as old as the oldest":  {db.Policy{Age: 4}, nil}, // ended at 1, and it is 5 now
		"younger than that":     {db.Policy{Age: 3}, []string{"1"}},
		"no time":               {db.Policy{Age: db.KeepNone}, []string{"1", "2", "3", "4", "5"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pruning := range []func(*past) stores.Pruning{(*past).pruning, (*past).weighing} {
				p := newPast(5)
				for i := range p.things {
					p.things[i].At = p.things[i].Key
				}
				done := prune(t, d, pruning(p), c.policy)
				if got := p.taken(); !slices.Equal(got, c.goes) {
					t.Errorf("%q went, not %q", got, c.goes)
				}
				want := db.Pruned{Removed: len(c.goes), Bytes: int64(10 * len(c.goes)), Remaining: 5 - len(c.goes)}
				if done != want {
					t.Errorf("it said %+v, not %+v", done, want)
				}
			}
		})
	}
}

func TestPrune_UsesShortReads(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	p := newPast(4001)
	done := prune(t, d, p.weighing(), db.Policy{Count: 3999, DryRun: true})
	if want := (db.Pruned{Removed: 2, Bytes: 20, Remaining: 3999}); done != want {
		t.Errorf("it said %+v", done)
	}
	if want := []int{2000, 2000, 1}; !slices.Equal(p.pages, want) {
		t.Errorf("the looks gave %d things", p.pages)
	}
	if want := []string{"2", "1"}; !slices.Equal(p.weighs, want) {
		t.Errorf("it weighed %q, and only %q go", p.weighs, want)
	}
	if len(p.takes) > 0 {
		t.Errorf("a dry run removed %q", p.taken())
	}
}

func TestALimitOfBytesWeighsEachThingOnce(t *testing.T) {
	p := newPast(5)
	prune(t, dbtest.Open(t, db.Options{}), p.weighing(), db.Policy{Bytes: 30})
	if want := []string{"5", "4", "3", "2", "1"}; !slices.Equal(p.weighs, want) {
		t.Errorf("it weighed %q", p.weighs)
	}
}

func TestGC_UnknownScopeHasNothing(t *testing.T) {
	p := newPast(5)
	pruning := p.pruning()
	pruning.Scope = "none"
	if done := prune(t, dbtest.Open(t, db.Options{}), pruning, db.Policy{Count: 1}); done != (db.Pruned{}) ||
		p.pages != nil {
		t.Errorf("it said %+v, and looked %d times", done, len(p.pages))
	}
}

func TestPrune_SparesPinnedMeanwhile(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	pin := func(id string) {
		if err := d.Write(t.Context(), "pin", func(tx *db.Tx) error {
			return tx.Store().Pin("", txn.Pinned{Store: maintenance.StoreLive, ID: id})
		}); err != nil {
			t.Error(err)
		}
	}
	p := newPast(5)
	p.share = 1 // each in a transaction of its own
	pin("1")
	var gone []string
	done := prune(t, d, p.pruning(), db.Policy{Count: db.KeepNone, Pinned: []string{"3"}, Each: func(g db.Gone) {
		gone = append(gone, g.ID)
		pin("4")
	}})
	if want := []string{"2", "5"}; !slices.Equal(gone, want) || !slices.Equal(p.taken(), want) {
		t.Errorf("%q went, and %q were told", p.taken(), gone)
	}
	if want := (db.Pruned{Removed: 2, Bytes: 20, Remaining: 3}); done != want {
		t.Errorf("it said %+v", done)
	}
}

// What a pin keeps beyond another limit takes its bytes all the same.
func TestPrune_PinnedBytesCount(t *testing.T) {
	p := newPast(3)
	p.things[2].Of = "b"
	prune(t, dbtest.Open(t, db.Options{}), p.pruning(), db.Policy{Count: 1, Bytes: 20, Pinned: []string{"2"}})
	if want := []string{"1"}; !slices.Equal(p.taken(), want) {
		t.Errorf("%q went, not %q", p.taken(), want)
	}
}

func TestATransactionRemovesItsShareAndNoMore(t *testing.T) {
	p := newPast(200)
	p.share = 10
	// It removes 2 with itself.
	p.remove = func(stores.Ended) (stores.Removal, int64, error) { return stores.Removed, 1, nil }
	prune(t, dbtest.Open(t, db.Options{}), p.pruning(), db.Policy{Count: db.KeepNone})
	together := map[int64]int{}
	for _, one := range p.takes {
		if want := 10 - 2*int64(together[one.transaction]); one.share != want || want <= 0 {
			t.Fatalf("number %d of a transaction had a share of %d", together[one.transaction]+1, one.share)
		}
		together[one.transaction]++
	}
	if len(p.takes) != 200 || len(together) == 200 {
		t.Errorf("%d things went in %d transactions", len(p.takes), len(together))
	}
}

func TestATransactionThatHasTakenLongLetsOthersIn(t *testing.T) {
	p := newPast(2)
	p.remove = func(stores.Ended) (stores.Removal, int64, error) {
		for began := time.Now(); time.Since(began) < 6*time.Millisecond; { // a turn is 5
		}
		return stores.Removed, 0, nil
	}
	prune(t, dbtest.Open(t, db.Options{}), p.pruning(), db.Policy{Count: db.KeepNone})
	if len(p.takes) != 2 || p.takes[0].transaction == p.takes[1].transaction {
		t.Errorf("both went in one transaction: %+v", p.takes)
	}
}

func TestWhatGoesInPartsIsGoneOnce(t *testing.T) {
	p := newPast(3)
	parts := 3
	p.remove = func(thing stores.Ended) (stores.Removal, int64, error) {
		switch {
		case thing.ID == "1":
			return stores.Kept, 0, nil
		case thing.ID == "2" && parts > 1:
			parts--
			return stores.Partial, 100, nil
		}
		return stores.Removed, 0, nil
	}
	var gone []string
	done := prune(t, dbtest.Open(t, db.Options{}), p.pruning(),
		db.Policy{Count: db.KeepNone, Each: func(g db.Gone) { gone = append(gone, g.ID) }})
	if want := []string{"2", "3"}; !slices.Equal(gone, want) {
		t.Errorf("%q went", gone)
	}
	if want := (db.Pruned{Removed: 2, Bytes: 20, Remaining: 1}); done != want {
		t.Errorf("it said %+v", done)
	}
	for i, one := range p.takes[1:] {
		if one.id == "2" && i > 0 && (one.share != p.share || one.transaction == p.takes[i].transaction) {
			t.Errorf("the next part has a share of %d", one.share)
		}
	}
}

func TestPrune_ProgressIsOfOneItem(t *testing.T) {
	p := newPast(2)
	p.remove = func(thing stores.Ended) (stores.Removal, int64, error) {
		if thing.ID == "1" {
			*thing.Progress = "half"
			return stores.Partial, 0, nil
		}
		if *thing.Progress != nil {
			t.Errorf("%s goes on with the progress %v of another item", thing.ID, *thing.Progress)
		}
		return stores.Removed, 0, nil
	}
	pruning := p.pruning()
	pruning.Lock = func(*db.Tx, int64, []stores.Ended) (map[int64]bool, error) {
		if len(p.takes) == 0 {
			return nil, nil
		}
		return map[int64]bool{2: true}, nil // another call has the first
	}
	prune(t, dbtest.Open(t, db.Options{}), pruning, db.Policy{Count: db.KeepNone})
	if got := p.taken(); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("removed %q", got)
	}
}

func TestWhatWentBeforeAnErrorStaysGone(t *testing.T) {
	p := newPast(4)
	p.share = 2
	broken := errors.New("broken")
	p.remove = func(thing stores.Ended) (stores.Removal, int64, error) {
		if thing.ID == "4" {
			return stores.Kept, 0, broken
		}
		return stores.Removed, math.MaxInt32, nil
	}
	var gone []string
	done, err := stores.Prune(t.Context(), dbtest.Open(t, db.Options{}), p.pruning(),
		db.Policy{Count: db.KeepNone, Each: func(g db.Gone) { gone = append(gone, g.ID) }})
	if want := []string{"1", "2", "3"}; !errors.Is(err, broken) || !slices.Equal(gone, want) {
		t.Errorf("%q went before %v", gone, err)
	}
	if want := (db.Pruned{Removed: 3, Bytes: 30, Remaining: 1}); done != want {
		t.Errorf("it said %+v", done)
	}
}
