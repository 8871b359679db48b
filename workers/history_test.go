package workers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// Histories of several processes that send inputs to the workers of one runtime, repeat them, and
// end workers, with SIGKILL and SIGSTOP among the calls and on a server with connections that are
// cut. Every answer must be explained by calls that took effect one after the other, each between
// its beginning and its end. A call whose process was killed may have taken effect or not.

// A heard is a call: of create, send, repeat, stop and cancel.
type heard struct {
	Op     string
	Worker string // "" for create
	Of     place  `json:",omitzero"` // what the input that is repeated was answered
}

// An answer to one. None of them is what a process says that was killed meanwhile.
type answer struct {
	Refused bool
	Worker  string // that was made
	Status  string
	Place   place
}

// A place is what an input, or the end of a worker, got.
type place struct{ Event, Sequence uint64 }

// A talk is the state of the model: what a runtime is known to have.
type talk struct {
	Events  uint64 // ids that were given
	Workers map[string]listener
}

type listener struct {
	Status  string
	Entries uint64 // of the transcript
	Ended   uint64 // id of the event
}

func (s talk) with(worker string, l listener) talk {
	s.Events++
	s.Workers = maps.Clone(s.Workers)
	if s.Workers == nil {
		s.Workers = map[string]listener{}
	}
	if worker != "" {
		s.Workers[worker] = l
	}
	return s
}

// after gives the state that the call leads to, and its answer.
func (s talk) after(c heard, said *answer) (talk, answer) {
	l, there := s.Workers[c.Worker]
	next := place{Event: s.Events + 1, Sequence: l.Entries + 1}
	switch c.Op {
	case "create":
		if said == nil {
			return s.with("", listener{}), answer{} // of one that nobody was told of
		}
		return s.with(said.Worker, listener{Status: "running"}),
			answer{Worker: said.Worker, Place: place{Event: next.Event}}
	case "repeat":
		return s, answer{Status: l.Status, Place: c.Of}
	case "send":
		if !there || l.Status != "running" {
			return s, answer{Refused: true}
		}
		l.Entries++
		return s.with(c.Worker, l), answer{Status: "running", Place: next}
	default:
		if l.Status != "running" {
			return s, answer{Status: l.Status, Place: place{Event: l.Ended}}
		}
		l.Status, l.Ended = map[string]string{"stop": "stopped", "cancel": "cancelled"}[c.Op], next.Event
		return s.with(c.Worker, l), answer{Status: l.Status, Place: place{Event: l.Ended}}
	}
}

// talkModel begins with a runtime that has this many events.
func talkModel(events uint64) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{talk{Events: events}} },
		Step: func(state, input, output any) []any {
			before, said := state.(talk), output.(*answer)
			after, answered := before.after(input.(heard), said)
			switch {
			case said == nil:
				return []any{before, after}
			case *said != answered:
				return nil
			}
			return []any{after}
		},
		Equal: func(a, b any) bool {
			x, y := a.(talk), b.(talk)
			return x.Events == y.Events && maps.Equal(x.Workers, y.Workers)
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}).ToModel()
}

// inputter does what it is told about the workers of the shared runtime, and answers. Arguments: path.
func inputter(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: sharedRuntime})
	if err != nil {
		return err
	}
	batches := map[place]int64{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c heard
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		said, err := obey(ctx, d, r, c, batches)
		if refused, ok := errors.AsType[*workers.RuntimeError](err); ok &&
			refused.Kind == "InvalidRequest" {
			said, err = answer{Refused: true}, nil
		}
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
			return err
		}
	}
	return d.Close()
}

func obey(ctx context.Context, d *db.DB, r *workers.Runtime, c heard, batches map[place]int64) (answer,
	error,
) {
	ref := workers.WorkerRef{RuntimeID: sharedRuntime, WorkerID: workers.WorkerID(c.Worker)}
	heardOf := func(ack workers.WorkerInteractionAck) answer {
		return answer{
			Status: string(ack.Status),
			Place:  place{Event: ack.EventID, Sequence: ack.TranscriptSequence},
		}
	}
	ended := func(ack workers.WorkerLifecycleAck, err error) (answer, error) {
		return answer{Status: string(ack.Status), Place: place{Event: ack.EventID}}, err
	}
	switch c.Op {
	case "create":
		made, err := r.CreateWorker(ctx, taskRequest("listen"))
		return answer{Worker: string(made.WorkerID), Place: place{Event: made.LastEventID}}, err
	case "send":
		var ack workers.WorkerInteractionAck
		var batch int64
		err := d.WriteLocked(ctx, "send", func(tx *db.Tx) (err error) {
			batch = tx.Batch()
			ack, err = r.SendInputTx(tx, ref, workers.UserInput("x"))
			return err
		})
		said := heardOf(ack)
		batches[said.Place] = batch
		return said, err
	case "repeat":
		ack, err := r.SendInput(ctx, ref, repeat(workers.UserInput("x"), batches[c.Of]))
		return heardOf(ack), err
	case "stop":
		return ended(r.StopWorker(ctx, ref, nil))
	default:
		return ended(r.CancelWorker(ctx, ref, nil))
	}
}

// A caller is one process at a time of a history.
type caller struct {
	t       *testing.T
	path    string
	client  int
	random  *rand.Rand
	process *dbtest.Process
	sent    map[string]place // the last input of this process to a worker
}

// A telling is what a history is made of: calls, and the workers that callers know of.
type telling struct {
	begun time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	known []string
}

func (h *telling) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	if said := op.Output.(*answer); said != nil && said.Worker != "" {
		h.known = append(h.known, said.Worker)
	}
}

// worker is one of the newest.
func (h *telling) worker(random *rand.Rand) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) == 0 {
		return ""
	}
	return h.known[max(0, len(h.known)-1-random.IntN(3))]
}

func (c *caller) start() {
	c.process, c.sent = dbtest.Start(c.t, "inputter", c.path), map[string]place{}
}

func (c *caller) next(h *telling) heard {
	worker := h.worker(c.random)
	of, sent := c.sent[worker]
	switch n := c.random.IntN(20); {
	case worker == "" || n == 0:
		return heard{Op: "create"}
	case n == 1:
		return heard{Op: "stop", Worker: worker}
	case n == 2:
		return heard{Op: "cancel", Worker: worker}
	case n < 7 && sent:
		return heard{Op: "repeat", Worker: worker, Of: of}
	}
	return heard{Op: "send", Worker: worker}
}

// call does one, whose process may be killed or stopped meanwhile.
func (c *caller) call(h *telling) {
	next := c.next(h)
	line, err := json.Marshal(next)
	if err != nil {
		panic(err)
	}
	dies, stops := c.random.IntN(12) == 0, c.random.IntN(6) == 0
	op := porcupine.Operation{
		ClientId: c.client, Input: next, Call: int64(time.Since(h.begun)),
		Return: math.MaxInt64,
	}
	c.process.Send(string(line))
	var disturbed sync.WaitGroup
	if dies {
		disturbed.Go(c.process.Kill)
	} else if stops {
		c.process.Signal(syscall.SIGSTOP)
		disturbed.Go(func() { c.process.Signal(syscall.SIGCONT) })
	}
	var said *answer
	text, whole := c.process.Line()
	if whole && json.Unmarshal([]byte(text), &said) == nil {
		op.Return = int64(time.Since(h.begun))
	}
	disturbed.Wait()
	op.Output = said
	h.add(op)
	switch {
	case dies:
		c.start()
	case said == nil:
		c.t.Errorf("%+v: the process ended: %s", next, c.process.Stderr())
		c.start()
	case next.Op == "send" && !said.Refused:
		c.sent[next.Worker] = said.Place
	}
}

func TestHistoriesOfInputsAreLinearizable(t *testing.T) {
	rounds := 2
	if os.Getenv("SELVEDGE_LONG") != "" {
		rounds = 50
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := dbtest.Path(t)
			r := open(t, dbtest.OpenAt(t, path, db.Options{}), workers.RuntimeOptions{RuntimeID: sharedRuntime})
			first := eventsOf(t, r)
			h := &telling{begun: time.Now()}
			rough := dbtest.Rough(t, path)
			var all sync.WaitGroup
			for i := range 4 {
				c := &caller{t: t, path: rough, client: i, random: rand.New(rand.NewPCG(seed, uint64(i)))}
				c.start()
				all.Go(func() {
					for range 40 {
						c.call(h)
					}
					c.process.Wait()
				})
			}
			all.Wait()
			dbtest.Linearizable(t, talkModel(first), h.ops)
		})
	}
}

// eventsOf counts the events that a runtime has.
func eventsOf(t *testing.T, r *workers.Runtime) uint64 { return uint64(len(allEvents(t, r))) }
