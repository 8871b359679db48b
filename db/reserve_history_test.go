package db_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// Histories of several processes on two names, with SIGKILL and SIGSTOP among the calls, are judged
// by a linearizability checker: every answer must be explained by calls that took effect one after
// the other, each between its beginning and its end. A call whose process was killed may have taken
// effect or not. The leases last as long as their processes, so that what ends one is an event of
// the history and no clock.

// asked is a call as the model sees it.
type asked struct {
	order
	Process int // number of the process, never used again
}

// answered is its answer; Unknown is set when the process was killed meanwhile.
type answered struct {
	reply
	Unknown bool
}

// reserved is the model's state.
type reserved struct {
	Held [2]held
	Last int64 // greatest epoch that anybody was told
	Dead string
}

type held struct {
	Process int   // 0: nobody
	Epoch   int64 // 0: nobody was told
}

var reservedNames = [2]string{"a", "b"}

func (s reserved) free(h held) bool {
	return h.Process == 0 || containsNumber(s.Dead, h.Process)
}

func containsNumber(list string, n int) bool {
	for word := range strings.SplitSeq(list, ",") {
		if word == fmt.Sprint(n) {
			return true
		}
	}
	return false
}

// after gives the states that the call can lead to; none if the answer is impossible.
func (s reserved) after(m asked, t answered) []reserved {
	if m.Op == "die" {
		s.Dead += fmt.Sprintf("%d,", m.Process)
		return []reserved{s}
	}
	i := 0
	if m.Name == reservedNames[1] {
		i = 1
	}
	h := &s.Held[i]
	before := s
	mine := h.Process == m.Process && h.Epoch == m.Epoch && m.Epoch != 0
	var possible reply
	switch m.Op {
	case "reserve":
		if possible.Taken = !s.free(*h); possible.Taken {
			break
		}
		if !t.Unknown && t.Epoch <= s.Last {
			return nil // epochs grow
		}
		*h = held{m.Process, t.Epoch}
		possible.Epoch = t.Epoch
		s.Last = max(s.Last, t.Epoch)
	case "release":
		if possible.Lost = !mine; mine {
			*h = held{}
		}
	case "hold", "renew":
		possible.Lost = !mine
	}
	switch {
	case t.Unknown:
		return []reserved{before, s}
	case possible != t.reply:
		return nil
	}
	return []reserved{s}
}

var reservedModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{reserved{}} },
	Step: func(state, input, output any) (next []any) {
		for _, s := range state.(reserved).after(input.(asked), output.(answered)) {
			next = append(next, s)
		}
		return next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}).ToModel()

// A diary is a history as it comes about.
type diary struct {
	begun   time.Time
	mu      sync.Mutex
	numbers int
	ops     []porcupine.Operation
}

func (d *diary) now() int64 { return int64(time.Since(d.begun)) }

func (d *diary) number() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.numbers++
	return d.numbers
}

// add writes down a call; end 0 means that it was never seen to end.
func (d *diary) add(client int, m asked, t answered, call, end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end == 0 {
		end = int64(time.Hour)
	}
	d.ops = append(d.ops, porcupine.Operation{ClientId: client, Input: m, Output: t, Call: call, Return: end})
}

// A place is one at which a process works; when it is killed the next one takes it.
type place struct {
	t       testing.TB
	path    string
	client  int
	diary   *diary
	rnd     *rand.Rand
	process *crew
	number  int
	epochs  map[string]int64 // of the last reservation of each name
	guest   *place           // makes calls while the process is stopped; it is never killed
}

func (p *place) start() {
	p.t.Helper()
	c, refused := startCrew(p.t, nil, p.path)
	if refused != "" {
		p.t.Error(refused)
	}
	p.process, p.number, p.epochs = c, p.diary.number(), map[string]int64{}
}

func (p *place) call(o order, kill bool) {
	m, call := asked{o, p.number}, p.diary.now()
	m.Patience = 0
	if !kill {
		r := p.process.do(o)
		if r.Busy {
			return // nothing was done
		}
		p.diary.add(p.client, m, answered{reply: r}, call, p.diary.now())
		if o.Op == "reserve" && r.Epoch > 0 {
			p.epochs[o.Name] = r.Epoch
		}
		return
	}
	p.process.send(o)
	for range p.rnd.IntN(4) { // somewhere on its way
		p.process.Signal(syscall.SIGSTOP)
		p.process.Signal(syscall.SIGCONT)
	}
	killed := p.diary.now()
	p.process.Kill()
	p.diary.add(p.client+1000*p.number, m, answered{Unknown: true}, call, 0)
	p.diary.add(p.client, asked{order{Op: "die"}, p.number}, answered{}, killed, p.diary.now())
	p.start()
}

func (p *place) work(calls int) {
	for range calls {
		o := order{Name: reservedNames[p.rnd.IntN(2)], Op: "reserve"}
		if n := p.rnd.IntN(10); n >= 5 && p.epochs[o.Name] != 0 {
			o.Op, o.Epoch = []string{"hold", "renew", "release", "release", "release"}[n-5], p.epochs[o.Name]
		}
		if p.rnd.IntN(10) == 0 {
			p.process.Signal(syscall.SIGSTOP) // it holds what it holds
			// It may have been stopped in its turn.
			p.guest.call(order{Op: "reserve", Name: o.Name, Patience: 300 * time.Millisecond}, false)
			p.process.Signal(syscall.SIGCONT)
		}
		if epoch := p.guest.epochs[o.Name]; epoch != 0 && p.rnd.IntN(2) == 0 {
			p.guest.call(order{Op: "release", Name: o.Name, Epoch: epoch}, false)
		}
		p.call(o, p.rnd.IntN(25) == 0)
	}
}

func TestHistoriesOfReservationsAreLinearizable(t *testing.T) {
	rounds := 3
	if os.Getenv("SELVEDGE_LONG") != "" {
		rounds = 100
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := dbtest.Path(t)
			dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
			path = dbtest.Rough(t, path)
			d := &diary{begun: time.Now()}
			var all sync.WaitGroup
			for i := range 3 {
				rnd := rand.New(rand.NewPCG(seed, uint64(i)))
				p := &place{t: t, path: path, client: i, diary: d, rnd: rnd}
				p.guest = &place{t: t, path: path, client: 100 + i, diary: d, rnd: rnd}
				p.start()
				p.guest.start()
				all.Go(func() { p.work(50) })
			}
			all.Wait()
			dbtest.Linearizable(t, reservedModel, d.ops)
		})
	}
}

func TestHistory_NoticesImpossibleReservations(t *testing.T) {
	reserve := func(process int, epoch int64) (asked, answered) {
		return asked{order{Op: "reserve", Name: "a"}, process},
			answered{reply: reply{Epoch: epoch, Taken: epoch == 0}}
	}
	release := func(process int, epoch int64, lost bool) (asked, answered) {
		return asked{order{Op: "release", Name: "a", Epoch: epoch}, process}, answered{reply: reply{Lost: lost}}
	}
	die := func(process int) (asked, answered) { return asked{order{Op: "die"}, process}, answered{} }
	type step struct {
		asked
		answered
	}
	at := func(m asked, t answered) step { return step{m, t} }
	for name, history := range map[string][]step{
		"two winners":           {at(reserve(1, 1)), at(reserve(2, 2))},
		"a dead one keeps it":   {at(reserve(1, 1)), at(die(1)), at(reserve(2, 0))},
		"an epoch comes twice":  {at(reserve(1, 1)), at(release(1, 1, false)), at(reserve(2, 1))},
		"a stale handle":        {at(reserve(1, 1)), at(die(1)), at(reserve(2, 2)), at(release(2, 1, false))},
		"what is held is lost":  {at(reserve(1, 1)), at(release(1, 1, true))},
		"what is free is taken": {at(reserve(1, 0))},
	} {
		var ops []porcupine.Operation
		for i, s := range history {
			ops = append(ops, porcupine.Operation{
				Input: s.asked, Output: s.answered, Call: int64(2 * i),
				Return: int64(2*i + 1),
			})
		}
		if porcupine.CheckOperations(reservedModel, ops) {
			t.Errorf("%s was not noticed", name)
		}
		if !porcupine.CheckOperations(reservedModel, ops[:len(ops)-1]) {
			t.Errorf("%s: the history before it should be possible", name)
		}
	}
}
