package checkpoints_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// Histories of several processes on two runs, with SIGKILL and SIGSTOP among the calls, are judged
// by a linearizability checker: every answer must be explained by calls that took effect one after
// the other, each between its beginning and its end. A call whose process was killed may have taken
// effect or not.

// did is a call as the model sees it.
type did struct {
	order
	Process int // number of the process, never used again

	// Recovery is the number of a recovery, which is one call and goes from run to run: one of these
	// for each, with the count of all.
	Recovery int
}

// got is its answer; Unknown is set when the process was killed meanwhile.
type got struct {
	answer
	Unknown bool
}

// world is the model's state.
type world struct {
	Runs [2]modelRun
	Dead string // numbers of the processes that are gone, each between spaces

	// Counted has the recoveries that were at one of the runs and have counted it, and Passed those
	// that have not, each between spaces.
	Counted, Passed string
}

type modelRun struct {
	Paused    string // prompt of the document that waits; "" for none
	Claimed   string // prompt of the claimed document; "" for none
	Process   int    // that claimed it
	Epoch     int64  // of the claim; 0: nobody was told
	LastEpoch int64
}

func (w world) dead(process int) bool {
	return containsWord(w.Dead, process)
}

func containsWord(list string, process int) bool {
	word := asWord(process)
	for i := 0; i+len(word) <= len(list); i++ {
		if list[i:i+len(word)] == word {
			return true
		}
	}
	return false
}

func asWord(number int) string { return fmt.Sprintf(" %d ", number) }

// counts takes note that a recovery counted n at one of the runs, and reports whether that can be
// of one that counted so many in all.
func (w *world) counts(recovery, n, inAll int) bool {
	switch {
	case containsWord(w.Counted, recovery):
		w.Counted = strings.ReplaceAll(w.Counted, asWord(recovery), "")
		return n+1 == inAll
	case containsWord(w.Passed, recovery):
		w.Passed = strings.ReplaceAll(w.Passed, asWord(recovery), "")
		return n == inAll
	case n > 0:
		w.Counted += asWord(recovery)
	default:
		w.Passed += asWord(recovery)
	}
	return n <= inAll && inAll <= n+1
}

var historyRuns = [2]string{"a", "b"}

// step gives the states that the call can lead to; none if the answer is impossible.
func step(w world, d did, g got) []world {
	if d.Op == "die" {
		w.Dead += fmt.Sprintf(" %d ", d.Process)
		return []world{w}
	}
	if g.Unknown {
		next := []world{w}
		for _, possible := range effects(w, d) {
			next = append(next, possible.world)
		}
		return next
	}
	var next []world
	for _, possible := range effects(w, d) {
		if d.Op == "recover" {
			if !possible.counts(d.Recovery, possible.Count, g.Count) {
				continue
			}
			possible.Count = g.Count
		}
		if possible.agrees(g.answer) {
			next = append(next, possible.after(d, g.answer))
		}
	}
	return next
}

// effect is what a call does to a state, and what it answers.
type effect struct {
	world
	answer
	run int // of a claim that took something; else -1
}

func (e effect) agrees(a answer) bool {
	if e.run >= 0 && a.Epoch <= e.Runs[e.run].LastEpoch {
		return false // epochs grow
	}
	a.Epoch = 0
	return a == e.answer
}

func (e effect) after(d did, a answer) world {
	if e.run >= 0 {
		e.Runs[e.run].Epoch, e.Runs[e.run].LastEpoch = a.Epoch, a.Epoch
	}
	return e.world
}

func effects(w world, d did) []effect {
	e := effect{world: w, run: -1}
	i := 0
	if d.RunID == historyRuns[1] {
		i = 1
	}
	r := &e.Runs[i]
	switch d.Op {
	case "save":
		r.Paused = d.Prompt
	case "load":
		e.Found, e.Prompt = r.Paused != "", r.Paused
	case "claim":
		if r.Paused != "" {
			e.Found, e.Prompt, e.run = true, r.Paused, i
			*r = modelRun{Claimed: r.Paused, Process: d.Process, LastEpoch: r.LastEpoch}
		}
	case "complete":
		if e.Lost = r.Claimed == "" || r.Epoch != d.Epoch; !e.Lost {
			r.Claimed = ""
		}
	case "complete_id":
		if e.Lost = r.Claimed != "" && r.Process != d.Process && !w.dead(r.Process); !e.Lost {
			r.Claimed = ""
		}
	case "remove":
		r.Paused, r.Claimed = "", ""
	case "recover":
		if r.Claimed == "" || r.Process != d.Process && !w.dead(r.Process) {
			break
		}
		if r.Paused == "" {
			r.Paused = r.Claimed
			e.Count++
		}
		r.Claimed = ""
	}
	return []effect{e}
}

var historyModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{world{}} },
	Step: func(state, input, output any) []any {
		var next []any
		for _, w := range step(state.(world), input.(did), output.(got)) {
			next = append(next, w)
		}
		return next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}).ToModel()

// A recorder writes a history down.
type recorder struct {
	begun time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation

	recoveries int
}

func (r *recorder) now() int64 { return int64(time.Since(r.begun)) }

// add writes down a call; end 0 means that it was never seen to end.
func (r *recorder) add(client int, d did, g got, call, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end == 0 {
		end = int64(time.Hour)
	}
	ids := []string{d.RunID}
	if d.Op == "recover" {
		r.recoveries++
		ids, d.Recovery = historyRuns[:], r.recoveries
	}
	for i, id := range ids {
		d.RunID = id
		r.ops = append(r.ops, porcupine.Operation{
			ClientId: client + 1_000_000*i, Input: d, Output: g, Call: call,
			Return: end,
		})
	}
}

// A seat is one of the places at which a process works; when it is killed the next one takes the place.
type seat struct {
	t       testing.TB
	path    string
	number  int
	log     *recorder
	rnd     *rand.Rand
	next    func() int // numbers of processes
	hand    *hand
	process int
	epochs  map[string]int64 // of the last claim on each run

	// guest is a process that makes calls while the seat's own one is stopped. It is never killed.
	guest       *hand
	guestNumber int
}

func (s *seat) start() {
	s.hand, s.process, s.epochs = startWorker(s.t, s.path), s.next(), map[string]int64{}
}

// call makes one call and perhaps kills the process meanwhile.
func (s *seat) call(o order, kill bool) {
	d, call := did{order: o, Process: s.process}, s.log.now()
	if !kill {
		a := s.hand.do(o)
		s.log.add(s.number, d, got{answer: a}, call, s.log.now())
		if o.Op == "claim" && a.Found {
			s.epochs[o.RunID] = a.Epoch
		}
		return
	}
	s.hand.Send(`{"op":"` + o.Op + `","run_id":"` + o.RunID + `","prompt":"` + o.Prompt + `","epoch":` +
		fmt.Sprint(o.Epoch) + `}`)
	for range s.rnd.IntN(4) { // somewhere on its way
		s.hand.Signal(syscall.SIGSTOP)
		s.hand.Signal(syscall.SIGCONT)
	}
	killed := s.log.now()
	s.hand.Kill()
	s.log.add(s.number+1000*s.process, d, got{Unknown: true}, call, 0)
	s.log.add(s.number, did{order: order{Op: "die"}, Process: s.process}, got{}, killed, s.log.now())
	s.start()
}

func (s *seat) work(calls int, kills float64) {
	for n := range calls {
		run := historyRuns[s.rnd.IntN(2)]
		o := order{RunID: run}
		switch p := s.rnd.IntN(100); {
		case p < 25:
			o.Op, o.Prompt = "save", fmt.Sprintf("p%d-%d", s.process, n)
		case p < 60:
			o.Op = "claim"
		case p < 75:
			if o.Op, o.Epoch = "complete", s.epochs[run]; o.Epoch == 0 {
				continue
			}
		case p < 80:
			o.Op = "complete_id"
		case p < 84:
			o.Op = "remove"
		case p < 90:
			o.Op = "load"
		default:
			o.Op, o.RunID = "recover", ""
		}
		if s.rnd.IntN(10) == 0 {
			s.hand.Signal(syscall.SIGSTOP) // it holds what it holds
			s.visit(order{Op: "recover"})
			s.visit(order{Op: "claim", RunID: run})
			s.hand.Signal(syscall.SIGCONT)
		}
		s.call(o, s.rnd.Float64() < kills)
	}
}

// visit has the guest make a call.
func (s *seat) visit(o order) {
	call := s.log.now()
	a := s.guest.do(o)
	s.log.add(100+s.number, did{order: o, Process: s.guestNumber}, got{answer: a}, call, s.log.now())
}

func TestHistoriesAreLinearizable(t *testing.T) {
	for seed := range uint64(scaled(4, 150)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := dbtest.Path(t)
			dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
			path = dbtest.Rough(t, path)
			log := &recorder{begun: time.Now()}
			var numbers int
			var mu sync.Mutex
			next := func() int {
				mu.Lock()
				defer mu.Unlock()
				numbers++
				return numbers
			}
			var all sync.WaitGroup
			for i := range 3 {
				s := &seat{t: t, path: path, number: i, log: log, rnd: rand.New(rand.NewPCG(seed, uint64(i))), next: next}
				s.start()
				s.guest, s.guestNumber = startWorker(t, path), next()
				all.Go(func() { s.work(60, 0.03) })
			}
			all.Wait()
			dbtest.Linearizable(t, historyModel, log.ops)
		})
	}
}

func TestTheHistoryCheckNoticesWhatCantBe(t *testing.T) {
	by := func(process int, o order) did { return did{order: o, Process: process} }
	save := by(1, order{Op: "save", RunID: "a", Prompt: "p"})
	claim := func(process int) did { return by(process, order{Op: "claim", RunID: "a"}) }
	taken := func(epoch int64) got { return got{answer: answer{Found: true, Prompt: "p", Epoch: epoch}} }
	recovered := func(n int) got { return got{answer: answer{Count: n}} }
	recover, die := by(2, order{Op: "recover"}), by(1, order{Op: "die"})
	type entry struct {
		did
		got
	}
	for name, history := range map[string][]entry{
		"two winners":                {{save, got{}}, {claim(1), taken(1)}, {claim(2), taken(2)}},
		"a loss":                     {{save, got{}}, {claim(1), got{}}},
		"a living process is robbed": {{save, got{}}, {claim(1), taken(1)}, {recover, recovered(1)}},
		"a dead one keeps its claim": {{save, got{}}, {claim(1), taken(1)}, {die, got{}}, {recover, recovered(0)}},
		"a recovery counts too many": {{save, got{}}, {claim(1), taken(1)}, {die, got{}}, {recover, recovered(2)}},
		"an epoch comes twice": {
			{save, got{}},
			{claim(2), taken(7)},
			{recover, recovered(1)},
			{claim(1), taken(7)},
		},
		"a stale handle completes": {
			{save, got{}},
			{claim(2), taken(1)},
			{recover, recovered(1)},
			{claim(1), taken(2)},
			{by(2, order{Op: "complete", RunID: "a", Epoch: 1}), got{}},
		},
		"a document of an older save": {
			{save, got{}},
			{by(1, order{Op: "save", RunID: "a", Prompt: "q"}), got{}},
			{claim(1), taken(1)},
		},
	} {
		possible := func(history []entry) bool {
			var log recorder
			for i, e := range history {
				log.add(0, e.did, e.got, int64(2*i), int64(2*i+1))
			}
			return porcupine.CheckOperations(historyModel, log.ops)
		}
		if possible(history) {
			t.Errorf("%s was not noticed", name)
		}
		if !possible(history[:len(history)-1]) {
			t.Errorf("%s: the history before it should be possible", name)
		}
	}
}

// A recovery takes turns where others wait: they may see that it has been at one run and not yet at
// the other.
func TestHistory_RecoveryIsPerRun(t *testing.T) {
	var log recorder
	at := int64(0)
	add := func(process int, o order, a answer) {
		at += 2
		log.add(process, did{order: o, Process: process}, got{answer: a}, at, at+1)
	}
	for i, run := range historyRuns {
		add(1, order{Op: "save", RunID: run, Prompt: "p"}, answer{})
		add(1, order{Op: "claim", RunID: run}, answer{Found: true, Prompt: "p", Epoch: int64(i + 1)})
	}
	add(1, order{Op: "die"}, answer{})
	begun := at
	for i, run := range historyRuns {
		seen := answer{}
		if i == 0 {
			seen = answer{Found: true, Prompt: "p"}
		}
		add(2, order{Op: "load", RunID: run}, seen)
	}
	log.add(3, did{order: order{Op: "recover"}, Process: 3}, got{answer: answer{Count: 2}}, begun, at+3)
	if !porcupine.CheckOperations(historyModel, log.ops) {
		t.Error("it is taken for one that is at all runs at once")
	}
}
