package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/db"
)

// holds are the things of a scope that one holder has at a time.
type holds struct {
	// add makes a thing that can be taken; nil: any name can be taken.
	add func(ctx context.Context, name string) error
	// begin makes a thing and takes it; nil: nothing is made as it is taken.
	begin func(ctx context.Context, name string) (h holding, won bool, err error)
	// status returns the state of a thing; nil: only its holder is known.
	status func(ctx context.Context, name string) (string, error)
	// take takes a thing; won is false if another holder has it.
	take     func(ctx context.Context, name string) (h holding, won bool, err error)
	takeTx   func(tx *db.Tx, name string) (h holding, won bool, err error)
	reattach func(ctx context.Context, name string, epoch int64) (holding, error)
	remove   func(ctx context.Context, name string) error
	recover  func(ctx context.Context) (int, error)
	// outside writes to a thing without its holding; nil: no call does.
	outside func(ctx context.Context, name string) error
	// guarded: a held thing can't be removed, which is an ErrConflict. Else its holder then loses
	// it.
	guarded bool
}

// A holding is a thing that this process has.
type holding struct {
	epoch   int64
	write   func(tx *db.Tx) error // under the holding
	release func(ctx context.Context) error
}

func holdLaws(open func(d *db.DB, scope string) holds, name string) []law {
	l := holders{open, name}
	return []law{
		{"of those who take one wins", l.oneWins},
		{"what was begun is held", l.begun},
		{"epochs grow, and who was replaced is refused", l.fenced},
		{"what is held takes no writes of others", l.excluded},
		{"a holding is taken up again by its epoch", l.reattached},
		{"a function that fails takes nothing", l.undone},
		{"recovery spares the living", l.spares},
		{"who closes its handle gives up what it held", l.closed},
		{"recovery takes what the dead held", l.dead},
	}
}

// holders are a store's.
type holders struct {
	open  func(d *db.DB, scope string) holds
	store string
}

func (l holders) added(t *testing.T, d *db.DB, scope string, names ...string) holds {
	t.Helper()
	s := l.open(d, scope)
	for _, name := range names {
		if s.add != nil {
			must(t, s.add(t.Context(), name))
		}
	}
	return s
}

func (s *holds) mustTake(t *testing.T, name string) holding {
	t.Helper()
	h, won, err := s.take(t.Context(), name)
	must(t, err)
	if !won {
		t.Fatalf("%s can't be taken", name)
	}
	return h
}

// holdsOn reports, as ErrLeaseLost, whether h holds.
func holdsOn(t *testing.T, d *db.DB, h holding) error {
	t.Helper()
	return d.Write(t.Context(), "storetest", h.write)
}

func (l holders) oneWins(t *testing.T, at place) {
	const tries = 6
	for _, name := range []string{"a", "b"} {
		l.added(t, at.d, at.scope, name)
		var mu sync.Mutex
		var wait sync.WaitGroup
		won := 0
		count := func(winner bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if winner {
				won++
			}
		}
		for i := range tries {
			s := l.open(at.both()[i%len(at.both())], at.scope)
			wait.Go(func() {
				_, winner, err := s.take(t.Context(), name)
				count(winner, err)
			})
		}
		for _, p := range at.processes {
			wait.Go(func() {
				_, winner, err := p.take(l.store, at.scope, name)
				count(winner, err)
			})
		}
		wait.Wait()
		if won != 1 {
			t.Errorf("%s was won %d times", name, won)
		}
	}
}

func (l holders) begun(t *testing.T, at place) {
	s := l.open(at.d, at.scope)
	if s.begin == nil {
		return
	}
	h, won, err := s.begin(t.Context(), "a")
	must(t, err)
	must(t, holdsOn(t, at.d, h))
	for _, d := range at.both() {
		s := l.open(d, at.scope)
		if _, again, err := s.begin(t.Context(), "a"); !won || again || err != nil {
			t.Errorf("begun %v, and begun again %v: %v", won, again, err)
		}
		if _, taken, err := s.take(t.Context(), "a"); taken || err != nil {
			t.Errorf("what was begun was taken %v: %v", taken, err)
		}
	}
	must(t, h.release(t.Context()))
	s.mustTake(t, "a")
}

func (l holders) fenced(t *testing.T, at place) {
	s := l.added(t, at.d, at.scope, "a")
	first := s.mustTake(t, "a")
	must(t, holdsOn(t, at.d, first))
	must(t, first.release(t.Context()))
	wants(t, "a write behind the release", holdsOn(t, at.d, first), db.ErrLeaseLost)
	last := at.both()[len(at.both())-1]
	other := l.open(last, at.scope)
	next := other.mustTake(t, "a")
	if next.epoch <= first.epoch {
		t.Errorf("behind epoch %d comes %d", first.epoch, next.epoch)
	}
	wants(t, "a write of who was replaced", holdsOn(t, at.d, first), db.ErrLeaseLost)
	wants(t, "a release of who was replaced", first.release(t.Context()), db.ErrLeaseLost)
	must(t, holdsOn(t, last, next))
	if s.guarded {
		wants(t, "to remove what is held", s.remove(t.Context(), "a"), db.ErrConflict)
		must(t, holdsOn(t, last, next))
		must(t, next.release(t.Context()))
	}
	must(t, s.remove(t.Context(), "a"))
	wants(t, "a write behind the removal", holdsOn(t, last, next), db.ErrLeaseLost)
	l.added(t, at.d, at.scope, "a")
	again := s.mustTake(t, "a")
	if again.epoch <= next.epoch {
		t.Errorf("behind epoch %d, and a removal, comes %d", next.epoch, again.epoch)
	}
	wants(t, "a write to what has another's name", holdsOn(t, last, next), db.ErrLeaseLost)
}

func (l holders) excluded(t *testing.T, at place) {
	s := l.added(t, at.d, at.scope, "a")
	if s.outside == nil {
		return
	}
	must(t, s.outside(t.Context(), "a"))
	h := s.mustTake(t, "a")
	for _, d := range at.both() {
		other := l.open(d, at.scope)
		err := other.outside(t.Context(), "a")
		wants(t, "a write of an outsider", err, db.ErrConflict)
		if _, named := errors.AsType[*db.ReservedError](err); !named || db.Hint(err) == "" {
			t.Errorf("the refusal names no holder: %v", err)
		}
	}
	must(t, holdsOn(t, at.d, h))
	must(t, h.release(t.Context()))
	must(t, s.outside(t.Context(), "a"))
}

func (l holders) reattached(t *testing.T, at place) {
	s := l.added(t, at.d, at.scope, "a")
	h := s.mustTake(t, "a")
	again, err := s.reattach(t.Context(), "a", h.epoch)
	must(t, err)
	must(t, holdsOn(t, at.d, again))
	wants(t, "another epoch", second(s.reattach(t.Context(), "a", h.epoch+1)), db.ErrLeaseLost)
	must(t, again.release(t.Context()))
	wants(t, "a write of the first handle behind the release by the second", holdsOn(t, at.d, h),
		db.ErrLeaseLost)
	wants(t, "what is not held", second(s.reattach(t.Context(), "a", h.epoch)), db.ErrLeaseLost)
}

func (l holders) undone(t *testing.T, at place) {
	s := l.added(t, at.d, at.scope, "a")
	failure := errors.New("the function fails")
	var undone holding
	err := at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		h, won, err := s.takeTx(tx, "a")
		if err != nil || !won {
			return fmt.Errorf("won %v: %w", won, err)
		}
		undone = h
		return errors.Join(h.write(tx), failure)
	})
	wants(t, "the function", err, failure)
	if undone.write == nil {
		t.Fatal("it took nothing")
	}
	wants(t, "a write under what was undone", holdsOn(t, at.d, undone), db.ErrLeaseLost)
	l.added(t, at.other, at.scope, "a")
	must(t, at.other.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		_, _, err := s.takeTx(tx, "a")
		wants(t, "to take it in a transaction of another file", err, db.ErrInvalid)
		return nil
	}))
	// Another handle knows nothing of it, and draws a greater epoch all the same.
	last := at.both()[len(at.both())-1]
	other := l.open(last, at.scope)
	next := other.mustTake(t, "a")
	if next.epoch <= undone.epoch {
		t.Errorf("behind epoch %d, which was undone, another handle gives %d", undone.epoch, next.epoch)
	}
	wants(t, "a write under what was undone, beside a holder", holdsOn(t, at.d, undone), db.ErrLeaseLost)
	wants(t, "a release of what was undone, beside a holder", undone.release(t.Context()), db.ErrLeaseLost)
	must(t, holdsOn(t, last, next))
	must(t, next.release(t.Context()))
	l.undoneInPart(t, at)
}

// undoneInPart is undone for a savepoint of a transaction that goes on.
func (l holders) undoneInPart(t *testing.T, at place) {
	s := l.added(t, at.d, at.scope, "b")
	var undone, kept holding
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) (err error) {
		failure := errors.New("the savepoint fails")
		took := func(h *holding) (err error) {
			*h, _, err = s.takeTx(tx, "b")
			return err
		}
		err = tx.Savepoint(func() error { return errors.Join(took(&undone), failure) })
		wants(t, "the savepoint", err, failure)
		return took(&kept)
	}))
	if kept.epoch <= undone.epoch {
		t.Errorf("behind the epoch %d of a savepoint that was undone comes %d", undone.epoch, kept.epoch)
	}
	wants(t, "a write under a savepoint that was undone", holdsOn(t, at.d, undone), db.ErrLeaseLost)
	wants(t, "a release of a savepoint that was undone", undone.release(t.Context()), db.ErrLeaseLost)
	must(t, holdsOn(t, at.d, kept))
	l.added(t, at.d, at.scope, "c")
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		failure := errors.New("the savepoint fails")
		wants(t, "the savepoint", tx.Savepoint(func() (err error) {
			undone, _, err = s.takeTx(tx, "c")
			return errors.Join(err, failure)
		}), failure)
		return nil
	}))
	for _, p := range at.processes {
		epoch, won, err := p.take(l.store, at.scope, "c")
		if err != nil || !won {
			t.Fatalf("the process won %v: %v", won, err)
		}
		if epoch <= undone.epoch {
			t.Errorf("behind epoch %d of a savepoint that was undone a process gets %d", undone.epoch, epoch)
		}
	}
}

func (l holders) spares(t *testing.T, at place) {
	l.added(t, at.d, at.scope, "a", "b", "c")
	var held []holding
	for i, d := range at.both() {
		s := l.open(d, at.scope)
		held = append(held, s.mustTake(t, []string{"a", "b"}[i]))
	}
	for _, p := range at.processes {
		if _, won, err := p.take(l.store, at.scope, "c"); err != nil || !won {
			t.Fatalf("the process won %v: %v", won, err)
		}
	}
	for _, d := range at.both() {
		s := l.open(d, at.scope)
		if n, err := s.recover(t.Context()); n != 0 || err != nil {
			t.Errorf("it recovered %d things of the living: %v", n, err)
		}
	}
	for i, d := range at.both() {
		must(t, holdsOn(t, d, held[i]))
	}
}

func (l holders) dead(t *testing.T, at place) {
	s := l.added(t, at.d, at.scope, "a")
	for _, p := range at.processes {
		epoch, won, err := p.take(l.store, at.scope, "a")
		if err != nil || !won {
			t.Fatalf("the process won %v: %v", won, err)
		}
		if _, won, err := s.take(t.Context(), "a"); won || err != nil {
			t.Fatalf("what a living process holds was won %v: %v", won, err)
		}
		p.Kill()
		recovered := 0
		// an engine may wait before it takes the silent for dead
		for end := time.Now().Add(patience(t)); recovered == 0 && time.Now().Before(end); {
			for _, d := range at.both() {
				s := l.open(d, at.scope)
				n, err := s.recover(t.Context())
				must(t, err)
				recovered += n
			}
		}
		if recovered != 1 {
			t.Errorf("what the dead held was recovered %d times", recovered)
		}
		h, won, err := s.take(t.Context(), "a")
		if err != nil || !won || h.epoch <= epoch {
			t.Errorf("behind the epoch %d of the dead, %d was won: %v, %v", epoch, h.epoch, won, err)
		}
	}
}

func (l holders) closed(t *testing.T, at place) {
	if at.again == nil {
		return
	}
	d := at.open(t)
	s := l.added(t, d, at.scope, "a")
	h := s.mustTake(t, "a")
	before := ""
	if s.status != nil {
		var err error
		before, err = s.status(t.Context(), "a")
		must(t, err)
	}
	must(t, d.Close())
	wants(t, "a write on the closed handle", holdsOn(t, d, h), db.ErrClosed)
	s = l.open(at.shared.Again(t, d), at.scope)
	if n, err := s.recover(t.Context()); n != 1 || err != nil {
		t.Errorf("%d were recovered, not 1: %v", n, err)
	}
	if s.status != nil {
		after, err := s.status(t.Context(), "a")
		must(t, err)
		equal(t, "the status behind a recovery", after, before)
	}
	if next, won, err := s.take(t.Context(), "a"); err != nil || !won || next.epoch <= h.epoch {
		t.Errorf("behind epoch %d, %d was won: %v, %v", h.epoch, next.epoch, won, err)
	}
}

// A process is another one that Serve runs in.
type process struct{ Process }

// take has the process take a thing.
func (p process) take(store, scope, name string) (epoch int64, won bool, err error) {
	p.Send(strings.Join([]string{"take", store, scope, name}, "\t"))
	answer, ok := p.Line()
	if !ok {
		return 0, false, errors.New("the process is gone")
	}
	if answer == "lost" {
		return 0, false, nil
	}
	text, won := strings.CutPrefix(answer, "won ")
	if !won {
		return 0, false, errors.New(answer)
	}
	epoch, err = strconv.ParseInt(text, 10, 64)
	return epoch, true, err
}
