//go:build postgres

package postgres_test

import (
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

// A cutter passes the messages of the protocol on, in both directions, and cuts a connection at the
// one that it is told.
type cutter struct {
	mu   sync.Mutex
	left int // messages until the cut; 0: none comes
	how  cut
	was  bool // it has cut
	gone bool // and passes nothing on since
}

type cut int

const (
	before  cut = iota // the message is not passed on
	after              // it is the last one
	forGood            // it is the last one of all connections
)

// through gives the address behind a cutter.
func through(t *testing.T, address string) (string, *cutter) {
	t.Helper()
	c := &cutter{}
	return dbtest.PostgresProxy(t, address, c.pass(true), c.pass(false)), c
}

var errCut = errors.New("cut")

// pass passes messages on in one direction.
func (c *cutter) pass(ofClient bool) func(io.Writer, io.Reader) {
	return func(to io.Writer, from io.Reader) {
		_ = dbtest.PostgresMessages(from, ofClient, func(_ byte, message []byte) error {
			cuts, how := c.here()
			if cuts && how == before {
				return errCut
			}
			_, err := to.Write(message)
			if cuts {
				return errCut
			}
			return err
		})
	}
}

// here counts a message, and reports whether the cut is at it.
func (c *cutter) here() (bool, cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return true, before
	}
	if c.left == 0 {
		return false, c.how
	}
	c.left--
	c.was = c.left == 0
	c.gone = c.was && c.how == forGood
	return c.was, c.how
}

func (c *cutter) arm(left int, how cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.how, c.was = left, how, false
}

// disarm reports whether it has cut.
func (c *cutter) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.gone = 0, false
	return c.was
}

func TestPostgresEveryCutIsYesOrNo(t *testing.T) {
	// two statements, COMMIT and their answers
	everyCut(t, 10, func(e *postgres.Engine, n int64) callback.Outcome {
		return e.Write(t.Context(), "test", func(x engine.Tx) error {
			var last int64
			if err := x.Get(&last, "SELECT coalesce(max(n), 0) FROM kept WHERE n < ?", []any{n}); err != nil {
				return err
			}
			_, err := x.Exec("INSERT INTO kept VALUES (?)", []any{n})
			return err
		})
	})
}

// It is one message for all of it.
func TestPostgres_CutOnlyChangeIsYesOrNo(t *testing.T) {
	everyCut(t, 6, func(e *postgres.Engine, n int64) callback.Outcome {
		return e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
			if err := x.Lock("SELECT n FROM kept WHERE n = ?", []any{n}); err != nil {
				return err
			}
			changed, err := x.ExecAndCommit("INSERT INTO kept SELECT ? WHERE NOT EXISTS (SELECT 1 FROM kept WHERE "+
				"n < 0)",
				[]any{n})
			if err == nil && changed != 1 {
				t.Errorf("%d rows were changed", changed)
			}
			return err
		})
	})
}

// everyCut cuts at every message of an insertion, of which there are some.
func everyCut(t *testing.T, atLeast int, insertOne func(e *postgres.Engine, n int64) callback.Outcome) {
	t.Helper()
	direct := dbtest.Postgres(t)
	address, c := through(t, direct)
	e, look := open(t, address), open(t, direct)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	n := int64(0)
	insert := func() callback.Outcome { return insertOne(e, n) }
	const enough = 500
	for _, how := range []cut{before, after} {
		cuts := 0
		for at := 1; ; at++ {
			n++
			if out := insert(); out.Err != nil { // over a connection that is as the next one finds it
				t.Fatal(out.Err)
			}
			n++
			c.arm(at, how)
			out := insert()
			was := c.disarm()
			there := get[int64](t, look, "SELECT count(*) FROM kept WHERE n = ?", n)
			if out.Err == nil && there != 1 || out.Err != nil && !errors.Is(out.Err, engine.ErrOutcomeUnknown) &&
				there != 0 {
				t.Fatalf("cut at message %d (%d): it said %v, and %d rows are there", at, how, out.Err, there)
			}
			if out.Err != nil {
				t.Errorf("cut at message %d (%d): %v", at, how, out.Err)
			}
			if !was {
				break
			}
			if cuts++; cuts > enough {
				t.Fatal("a write has no end")
			}
		}
		if cuts < atLeast {
			t.Errorf("there were %d cuts", cuts)
		}
	}
}

// A server that answers again is asked again. A cut while the connection is made is one to no server.
func TestPostgres_OpenOutlivesCutConnection(t *testing.T) {
	direct := dbtest.Postgres(t)
	open(t, direct)
	address, c := through(t, direct)
	outlived := 0
	for at, was := 1, true; was; at++ {
		c.arm(at, after)
		e, err := postgres.Open(t.Context(), address, config(t))
		was = c.disarm()
		switch {
		case err == nil:
			outlived++
			err = e.Close()
		case strings.Contains(err.Error(), "no server answers"):
			err = nil
		}
		if err != nil {
			t.Errorf("cut at message %d: %v", at, err)
		}
	}
	if outlived < 10 {
		t.Errorf("it outlived %d cuts", outlived)
	}
}

// What was settled is settled: a message of the old connection that arrives behind that commits
// nothing, though it begins its transaction only then.
func TestPostgresASettledSessionCommitsNothingMore(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	settled := func() {
		dbtest.PostgresExec(t, address, "UPDATE selvedge.sessions SET outcome = least(outcome, -outcome - 1)")
	}
	for i, insert := range []func(fn func(engine.Tx) error) callback.Outcome{
		func(fn func(engine.Tx) error) callback.Outcome { return e.Write(t.Context(), "test", fn) },
		func(fn func(engine.Tx) error) callback.Outcome { return e.WriteLocked(t.Context(), "test", fn) },
	} {
		settled()
		times := 0
		out := insert(func(x engine.Tx) error {
			times++
			_, err := x.ExecAndCommit("INSERT INTO kept VALUES (?)", []any{i})
			return err
		})
		if n := get[int64](t, e, "SELECT count(*) FROM kept WHERE n = ?", i); out.Err != nil || n != 1 ||
			times < 2 {
			t.Errorf("%d rows are there after %d times: %v", n, times, out.Err)
		}
	}
}

// No primary answers after the cut: where it came in the commit nobody can say whether that
// happened, and before it nothing did.
func TestPostgresAServerThatIsGoneLeavesNoDoubt(t *testing.T) {
	direct := dbtest.Postgres(t)
	address, c := through(t, direct)
	e, look := open(t, address), open(t, direct)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	unknown := 0
	for n := 1; ; n++ {
		e.SetPatience(time.Hour)
		exec(t, e, "SELECT count(*) FROM kept") // over a connection that is as the next one finds it
		e.SetPatience(50 * time.Millisecond)
		c.arm(n, forGood)
		out := e.Write(t.Context(), "test", func(x engine.Tx) error {
			_, err := x.Exec("INSERT INTO kept VALUES (?)", []any{n})
			return err
		})
		was := c.disarm()
		there := get[int64](t, look, "SELECT count(*) FROM kept WHERE n = ?", n)
		var f *engine.Failure
		switch {
		case errors.Is(out.Err, engine.ErrOutcomeUnknown):
			unknown++
			if !errors.As(out.Err, &f) || f.Hint == "" {
				t.Errorf("cut at message %d: %v has no hint", n, out.Err)
			}
		case out.Err != nil && there != 0, out.Err == nil && there != 1:
			t.Errorf("cut at message %d: it said %v, and %d rows are there", n, out.Err, there)
		case out.Err != nil && !errors.Is(out.Err, engine.ErrIO):
			t.Errorf("cut at message %d: %v", n, out.Err)
		}
		if !was {
			break
		}
		if n > 500 {
			t.Fatal("a write has no end")
		}
	}
	if unknown == 0 {
		t.Error("every cut was settled without a server")
	}
}

func TestPostgresACancelledWaitForStandbysIsNoAcknowledgement(t *testing.T) {
	address := dbtest.PostgresAlone(t, "../..")
	dbtest.PostgresExec(t, address, "ALTER ROLE selvedge SET client_min_messages = error")
	e := open(t, address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	standbys := func(names string) {
		dbtest.PostgresExec(t, address, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		dbtest.PostgresExec(t, address, "SELECT pg_reload_conf()")
	}
	waiting := func() [][][]byte {
		return dbtest.PostgresExec(t, address,
			"SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query NOT ILIKE '%notify%'")
	}
	standbys("nobody")
	t.Cleanup(func() { standbys("") })
	var said atomic.Int64 // how many writes were done
	enough, done := make(chan struct{}), make(chan callback.Outcome, 1)
	go func() { // one after the other, since the server hears of its settings when it will
		for {
			out := e.Write(t.Context(), "test", func(x engine.Tx) error {
				_, err := x.Exec("INSERT INTO kept VALUES (1)", nil)
				return err
			})
			said.Add(1)
			select {
			case <-enough:
			default:
				if out.Err == nil {
					continue
				}
			}
			done <- out
			return
		}
	}()
	var first string
	dbtest.Await(t, "a commit waits", func() bool {
		now := waiting()
		if len(now) > 0 {
			first = string(now[0][0])
		}
		return len(now) > 0
	})
	before := said.Load()
	dbtest.PostgresExec(t, address, "SELECT pg_cancel_backend("+first+")")
	dbtest.Await(t, "the change that settles it waits in its turn", func() bool {
		now := waiting()
		return len(now) > 0 && string(now[0][0]) != first
	})
	if said.Load() != before {
		t.Error("it said that it was done while no standby has it")
	}
	close(enough)
	standbys("")
	if out := <-done; out.Err != nil {
		t.Error(out.Err)
	}
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != said.Load() {
		t.Errorf("%d rows are there of %d", n, said.Load())
	}
}

func TestPostgres_FunctionCannotHideUnknownOutcome(t *testing.T) {
	direct := dbtest.Postgres(t)
	address, c := through(t, direct)
	e := open(t, address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	own := errors.New("the function's own")
	insert := func() callback.Outcome {
		return e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
			if _, err := x.ExecAndCommit("INSERT INTO kept VALUES (1)", nil); err != nil {
				return own
			}
			return nil
		})
	}
	if out := insert(); out.Err != nil { // its statements are prepared
		t.Fatal(out.Err)
	}
	unknown := 0
	for at := 1; ; at++ {
		e.SetPatience(50 * time.Millisecond)
		c.arm(at, forGood)
		out := insert()
		was := c.disarm()
		e.SetPatience(time.Hour)
		if errors.Is(out.Err, engine.ErrOutcomeUnknown) {
			unknown++
		} else if errors.Is(out.Err, own) {
			t.Errorf("cut at message %d: %v", at, out.Err)
		}
		if !was {
			break
		}
		if out = insert(); out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	if unknown == 0 {
		t.Error("every cut was settled without a server")
	}
}

// A commit waits for a row that goes with it, for longer than an answer is waited for.
func TestPostgres_CommitBehindLockIsNotCut(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other := open(t, address), open(t, address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	exec(t, e, "INSERT INTO kept VALUES (1)")
	held, leave := make(chan struct{}, 2), make(chan struct{})
	done := make(chan callback.Outcome, 2)
	go func() {
		done <- other.Write(t.Context(), "hold", func(x engine.Tx) error {
			_, err := x.Exec("UPDATE kept SET n = n + 1", nil)
			held <- struct{}{}
			<-leave
			return err
		})
	}()
	dbtest.Receive(t, "a transaction that holds", held)
	looks := postgres.HoldCommits(t)
	times := 0
	go func() {
		done <- e.WriteLocked(t.Context(), "wait", func(x engine.Tx) error {
			times++
			if err := x.Lock("SELECT n FROM kept", nil); err != nil {
				return err
			}
			_, err := x.ExecAndCommit("UPDATE kept SET n = 10 * n", nil)
			return err
		})
	}()
	dbtest.AwaitPostgresWaits(t, address, 1)
	dbtest.Receive(t, "a commit without an answer", looks)() // it has waited long enough to be looked after
	close(leave)
	for range 2 {
		if out := dbtest.Receive(t, "the end of both", done); out.Err != nil {
			t.Error(out.Err)
		}
	}
	if n := get[int64](t, e, "SELECT n FROM kept"); n != 20 || times != 1 {
		t.Errorf("after %d times there is %d", times, n)
	}
}

// Nothing comes back any more from a server that does nothing for the message: it is given up and settled.
func TestPostgres_StalledCommitIsGivenUp(t *testing.T) {
	direct := dbtest.Postgres(t)
	gate := dbtest.NewPostgresGate(t, direct)
	e := open(t, gate.Address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	looks := postgres.HoldCommits(t)
	done := make(chan callback.Outcome, 1)
	gate.Shut()
	go func() {
		done <- e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
			_, err := x.ExecAndCommit("INSERT INTO kept VALUES (1)", nil)
			return err
		})
	}()
	look := dbtest.Receive(t, "a commit without an answer", looks)
	go look()
	gate.Open()
	if out := dbtest.Receive(t, "its end", done); out.Err != nil {
		t.Error(out.Err)
	}
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("%d rows are there", n)
	}
}

// A pooler lets through what is not ours. All later answers would be taken for those of other questions.
func TestPostgres_SessionWithStrayAnswerIsDropped(t *testing.T) {
	var strays, connections atomic.Int64 // how many connections from now on begin so, and how many there were
	address := dbtest.PostgresProxy(t, dbtest.Postgres(t),
		func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) }, func(to io.Writer, from io.Reader) {
			stray := strays.Add(-1) >= 0
			connections.Add(1)
			_ = dbtest.PostgresMessages(from, false, func(kind byte, message []byte) error {
				if kind == 'Z' && stray { // behind the start
					stray = false
					message = slices.Concat(message, []byte("C\x00\x00\x00\x08SET\x00"), message)
				}
				_, err := to.Write(message)
				return err
			})
		})
	strays.Store(2)
	e := open(t, address)
	strays.Store(1)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	exec(t, e, "INSERT INTO kept VALUES (1)")
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 1 || connections.Load() < 6 {
		t.Errorf("%d rows are there, over %d connections", n, connections.Load())
	}
	strays.Store(1)
	if _, err := e.Watch(t.Context(), engine.NoStream); err != nil {
		t.Errorf("a watcher is told %v", err)
	}
	strays.Store(math.MaxInt64)
	if e, err := postgres.Open(t.Context(), address, config(t)); !errors.Is(err, engine.ErrIO) ||
		!strings.Contains(err.Error(), "something else") {
		t.Errorf("where every connection begins so it is %v, %v", e, err)
	}
}
