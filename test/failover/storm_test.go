//go:build postgres

package failover_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// A storm kills, stops and cuts off processes of a trial, one at a time.
type storm struct {
	*trial
	rnd     *rand.Rand
	names   []string // of the writers that are to come
	stopped map[string]time.Time
	killed  []string
}

// Processes that make all kinds of calls to all stores of one server are killed, stopped and cut
// off at random, and replaced by others. The state in the end is judged as after a failover.
func TestPostgresTheStoresStandAStorm(t *testing.T) {
	const writers, mostKilled = 3, 100
	lasts, seed := 6*time.Second, uint64(time.Now().UnixNano())
	long := os.Getenv("SELVEDGE_LONG") != ""
	if long {
		lasts = 10 * time.Minute
	}
	t.Logf("the seed is %d", seed)
	s := &storm{
		trial: &trial{cluster: &cluster{t: t, address: dbtest.Postgres(t)}, notes: &notes{t: t}},
		rnd:   rand.New(rand.NewPCG(seed, 0)), stopped: map[string]time.Time{},
	}
	for n := range writers + mostKilled {
		s.names = append(s.names, fmt.Sprintf("w%d", n))
	}
	s.before = dbtest.OpenAt(t, s.address, db.Options{})
	s.prepare(t, s.before, s.names...)
	for range writers {
		s.comes()
	}
	s.notes.listen("follower", dbtest.Start(t, "follow", s.address))
	s.goesOn(time.Time{})
	s.fault = time.Now()
	s.kills() // so that a short one has one too
	for time.Since(s.fault) < lasts {
		switch n := s.rnd.IntN(20); {
		case n == 0 && len(s.names) > 0:
			s.kills()
		case n < 10:
			s.stops()
		default:
			s.cuts()
		}
		<-time.After(time.Duration(s.rnd.IntN(400)) * time.Millisecond)
		s.wakes(time.Now())
	}
	s.wakes(time.Now().Add(time.Hour))
	if long {
		s.goesOn(time.Now(), s.killed...)
	}
	s.over()
	judgeThings(t, readThings(t, s.before), s.notes.all())
}

// comes starts one more writer.
func (s *storm) comes() {
	name := s.names[0]
	s.names, s.writers = s.names[1:], append(s.writers, name)
	s.notes.listen(name, dbtest.Start(s.t, "write", s.address, name, "streams", "holds", "claims", "changes"))
}

// one is any process.
func (s *storm) one() (name string) {
	names := []string{"follower"}
	for _, name := range s.writers {
		if _, lives := s.notes.processes[name]; lives {
			names = append(names, name)
		}
	}
	return names[s.rnd.IntN(len(names))]
}

// kills has another writer come in the place of one.
func (s *storm) kills() {
	name := s.one()
	if name == "follower" {
		name = s.writers[len(s.writers)-1]
	}
	s.notes.kill(name)
	delete(s.stopped, name)
	s.killed = append(s.killed, name)
	s.wakes(time.Now().Add(time.Hour)) // or new processes wait for what they have locked
	s.comes()
}

// stops makes a process stand still, for up to a little longer than the timed holds last.
func (s *storm) stops() {
	name := s.one()
	if s.stopped[name].IsZero() {
		s.notes.processes[name].Signal(syscall.SIGSTOP)
		s.stopped[name] = time.Now().Add(time.Duration(s.rnd.Int64N(int64(shortly + time.Second))))
	}
}

// wakes has those go on whose time has come.
func (s *storm) wakes(now time.Time) {
	for name, until := range s.stopped {
		if until.Before(now) {
			s.notes.processes[name].Signal(syscall.SIGCONT)
			delete(s.stopped, name)
		}
	}
}

// cuts ends one in three connections, those included that beat and listen.
func (s *storm) cuts() {
	dbtest.PostgresExec(s.t, s.address, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.33`)
}

// kill kills a process, and reads its reports until then.
func (ns *notes) kill(name string) {
	p := ns.processes[name]
	delete(ns.processes, name)
	p.Signal(syscall.SIGKILL)
	<-p.silent
	p.Kill() // which waits
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.list = append(ns.list, note{at: time.Now(), process: name, kind: killed})
}

// ended returns the notes without those of begun calls: the last call of a killed process may
// have been done without a report.
func ended(said []note) (list []note) {
	dead := map[string]bool{}
	for _, n := range said {
		if n.kind == killed {
			dead[n.process] = true
		}
	}
	for _, n := range said {
		if n.kind == began && dead[n.process] {
			n.kind = unfinished
		}
		if n.kind != began {
			list = append(list, n)
		}
	}
	return list
}
