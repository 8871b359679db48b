package agents_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"selvedge/test/dbtest"
)

// A call of the history: a process's on a thread, or the test's own.
type leaseCall struct {
	verb   string // lease, beat, write, release; kill, and expire for the lease clock
	id     string // of the agent; for kill the process's
	thread string
}

// A threadState is what the model knows of a thread: its holder, and which processes are gone.
type threadState struct {
	holder string // "" where no agent has it, or none that lives
	dead   string // " p1 p2 "
}

func processOf(id string) string { return id[:strings.LastIndexByte(id, '-')] }

func (s threadState) free() bool {
	return s.holder == "" || strings.Contains(s.dead, " "+processOf(s.holder)+" ")
}

// step gives the states that a call with this answer can lead to; "" is the answer of a process
// that was killed first.
func (s threadState) step(c leaseCall, answer string) []any {
	taken := threadState{c.id, s.dead}
	switch c.verb {
	case "kill":
		return []any{threadState{s.holder, s.dead + " " + c.id + " "}}
	case "expire":
		return []any{threadState{"", s.dead}}
	case "lease":
		switch {
		case answer == "" && s.free():
			return []any{s, taken}
		case answer == "":
			return []any{s}
		case answer == "won "+c.id && s.free():
			return []any{taken}
		case !s.free() && answer == "owner "+s.holder:
			return []any{s}
		}
		return nil
	}
	holds := s.holder == c.id
	after := s
	if c.verb == "release" {
		after.holder = ""
	}
	switch {
	case answer == "" && holds:
		return []any{s, after}
	case answer == "", answer == "lost" && !holds:
		return []any{s}
	case answer == "ok" && holds:
		return []any{after}
	}
	return nil
}

var threadModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{threadState{}} },
	Step: func(state, input, output any) []any {
		return state.(threadState).step(input.(leaseCall), output.(string))
	},
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byThread := map[string][]porcupine.Operation{}
		var names []string
		for _, op := range history {
			if thread := op.Input.(leaseCall).thread; thread != "" && !slices.Contains(names, thread) {
				names = append(names, thread)
			}
		}
		for _, op := range history {
			for _, name := range names {
				if thread := op.Input.(leaseCall).thread; thread == name || thread == "" { // the test's own concern all
					byThread[name] = append(byThread[name], op)
				}
			}
		}
		var parts [][]porcupine.Operation
		for _, name := range names {
			parts = append(parts, byThread[name])
		}
		return parts
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %q", input, output) },
}

// A history is what the processes and the test did, and when.
type history struct {
	mu    sync.Mutex
	begun time.Time
	ops   []porcupine.Operation
}

func (h *history) do(client int, c leaseCall, fn func() string) string {
	called := time.Since(h.begun)
	answer := fn()
	returned := int64(time.Since(h.begun))
	if answer == "" && c.verb != "kill" && c.verb != "expire" {
		returned = math.MaxInt64 // it may still have happened, or not
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: c, Output: answer, Call: int64(called),
		Return: returned,
	})
	return answer
}

func TestLeases_LinearizableUnderKillsAndStops(t *testing.T) {
	const processes, calls = 4, 40
	const threads = 3
	r := startRacers(t, processes)
	r.path = dbtest.Rough(t, r.path) // for those that come after the killed
	h := &history{begun: time.Now()}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var clients sync.WaitGroup
	progress := make(chan struct{}, processes*calls)
	for i := range processes {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			incarnation := 0
			held := map[string]string{}
			for n := range calls {
				progress <- struct{}{}
				process := fmt.Sprintf("p%d-%d", i, incarnation)
				thread := fmt.Sprintf("t%d", random.IntN(threads))
				c := leaseCall{"lease", fmt.Sprintf("%s-%d", process, n), thread}
				if id := held[thread]; id != "" {
					c.verb, c.id = []string{"beat", "write", "release"}[random.IntN(3)], id
				}
				one := r.all[i]
				dies := random.IntN(8) == 0
				var killed sync.WaitGroup
				if dies {
					killed.Go(func() {
						h.do(processes+i, leaseCall{"kill", process, ""}, func() string { one.Kill(); return "" })
					})
				} else if random.IntN(6) == 0 {
					one.Signal(syscall.SIGSTOP)
					killed.Go(func() { one.Signal(syscall.SIGCONT) })
				}
				answer := h.do(i, c, func() string {
					line := c.verb + " " + c.id + " " + thread
					if err := one.TrySend(line); err != nil {
						return ""
					}
					answer, whole := one.Line()
					if !whole {
						return ""
					}
					return answer
				})
				killed.Wait()
				if dies {
					r.start(i)
					incarnation++
					held = map[string]string{}
					continue
				}
				switch {
				case strings.HasPrefix(answer, "won "):
					held[thread] = c.id
				case answer == "lost", c.verb == "release":
					delete(held, thread)
				}
			}
		})
	}
	// The lease clock jumps now and then.
	go func() { clients.Wait(); close(progress) }()
	for n := 1; ; n++ {
		if _, more := <-progress; !more {
			break
		}
		if n%25 == 0 {
			h.do(2*processes, leaseCall{verb: "expire"}, func() string { r.expire(); return "" })
		}
	}
	dbtest.Linearizable(t, threadModel.ToModel(), h.ops)
}

func TestTheCheckerNoticesTwoHolders(t *testing.T) {
	op := func(client int, c leaseCall, answer string, call, ret int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: c, Output: answer, Call: call, Return: ret}
	}
	good := []porcupine.Operation{
		op(0, leaseCall{"lease", "p0-0-1", "t"}, "won p0-0-1", 0, 1),
		op(1, leaseCall{"lease", "p1-0-1", "t"}, "owner p0-0-1", 2, 3),
		op(2, leaseCall{"kill", "p0-0", ""}, "", 4, 6),
		op(1, leaseCall{"lease", "p1-0-2", "t"}, "won p1-0-2", 5, 7),
		op(1, leaseCall{"beat", "p1-0-2", "t"}, "ok", 8, 9),
	}
	if !porcupine.CheckOperations(threadModel.ToModel(), good) {
		t.Error("a history with one holder is refused")
	}
	for i, answer := range map[int]string{1: "won p1-0-1", 3: "owner p0-0-1", 4: "lost"} {
		bad := slices.Clone(good)
		bad[i].Output = answer
		if i == 3 { // after the kill has ended its victim can't own anything
			bad[i].Call, bad[i].Return = 7, 8
			bad[4].Call, bad[4].Return = 9, 10
		}
		if porcupine.CheckOperations(threadModel.ToModel(), bad) {
			t.Errorf("a history in which call %d answers %q passes", i, answer)
		}
	}
}
