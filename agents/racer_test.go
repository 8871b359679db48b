package agents_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m, map[string]dbtest.Program{"racer": race}) }

// race is a process that does as it is told, a line a call, on the file args[0]: its answers are
// lines too. Its lease clock is in the file args[1], where the program that started it can move it.
func race(args []string) error {
	d, err := db.Open(ctx, args[0], db.Options{BootTime: func() db.BootTime { return readClock(args[1]) }})
	if err != nil {
		return err
	}
	r := racer{agents.NewRegistry(d, agents.Options{}), map[string]*agents.Lease{}}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(r.do(strings.Fields(in.Text())))
	}
	return d.Close()
}

type racer struct {
	*agents.Registry
	leases map[string]*agents.Lease
}

func (r racer) do(words []string) string {
	id := words[1]
	switch words[0] {
	case "reserve": // reserve ID THREAD: by the original's rules
		return outcome(r.TryReserveThread(ctx, words[2], r.builder(id, words[2])))
	case "lease": // lease ID THREAD
		lease, out, err := r.TryLeaseThread(ctx, words[2], db.LeaseTerms{TTL: time.Hour}, r.builder(id, words[2]))
		if lease != nil {
			r.leases[id] = lease
		}
		return outcome(out, err)
	case "die": // die ID THREAD: in the middle of a reservation, when it has said so
		return outcome(r.TryReserveThread(ctx, words[2], func(string) (agents.Entry, error) {
			fmt.Println("building")
			select {}
		}))
	case "beat":
		return lost(r.leases[id].Renew(ctx))
	case "write":
		return lost(r.leases[id].LogContextQuery(ctx, agents.ContextQuery{Path: "p", QueriedAt: time.Now()}))
	case "release":
		return lost(r.leases[id].Release(ctx, agents.Complete))
	}
	return "what is " + words[0]
}

func (r racer) builder(id, thread string) agents.Builder {
	return func(string) (agents.Entry, error) { return onThread(thread, os.Getpid())(id) }
}

func outcome(out agents.ReserveOutcome, err error) string {
	switch {
	case err != nil:
		return "error " + err.Error()
	case out.Reserved != nil:
		return "won " + out.Reserved.SessionID
	}
	return "owner " + out.LiveOwner.SessionID
}

func lost(err error) string {
	switch {
	case errors.Is(err, db.ErrLeaseLost):
		return "lost"
	case err != nil:
		return "error " + err.Error()
	}
	return "ok"
}

func readClock(path string) db.BootTime {
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 8 {
		panic(fmt.Sprintf("the lease clock: %d bytes, %v", len(text), err))
	}
	return db.BootTime{Boot: "here", Since: time.Duration(binary.BigEndian.Uint64(text))}
}

// setClock moves the lease clock of the processes that share it, in one step.
func setClock(t testing.TB, path string, since time.Duration) {
	t.Helper()
	if err := os.WriteFile(path+".new", binary.BigEndian.AppendUint64(nil, uint64(since)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// A field of racers are processes on one file.
type racers struct {
	t           testing.TB
	path, clock string
	now         time.Duration
	all         []*dbtest.Process
}

func startRacers(t testing.TB, n int) *racers {
	r := &racers{t: t, path: dbtest.Path(t), clock: t.TempDir() + "/clock", now: time.Hour}
	setClock(t, r.clock, r.now)
	for range n {
		r.all = append(r.all, nil)
	}
	for i := range r.all {
		r.start(i)
	}
	return r
}

func (r *racers) start(i int) {
	r.all[i] = dbtest.Start(r.t, "racer", r.path, r.clock)
	r.all[i].Expect("ready")
}

// tell gives a process its call and its answer.
func (r *racers) tell(i int, call string) string {
	r.t.Helper()
	r.all[i].Send(call)
	answer, _ := r.all[i].Line()
	return answer
}

func (r *racers) expire() {
	r.now += time.Hour
	setClock(r.t, r.clock, r.now)
}
