package stores_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/state"
	"selvedge/test/dbtest"
)

var programs = map[string]dbtest.Program{"setter": setter, "chaotic": chaotic}

func TestMain(m *testing.M) { dbtest.Main(m, programs) }

// setter sets, for each line "name n", the values name 0 to name n-1 in one transaction, and says so.
func setter(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		name, count, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(count)
		if err == nil {
			err = set(d, name, n)
		}
		if err != nil {
			return err
		}
		fmt.Println("set")
	}
	return d.Close()
}

func set(d *db.DB, name string, n int) error {
	s := state.NewStore(d, state.Options{})
	return d.Write(context.Background(), "set", func(tx *db.Tx) error {
		for i := range n {
			if _, err := s.SetTx(tx, state.Ref{Key: fmt.Sprint(name, " ", i)}, json.RawMessage("1")); err != nil {
				return err
			}
		}
		return nil
	})
}

// chaotic sets and removes values in transactions that may fail, a number of times.
func chaotic(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	steps, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	s := state.NewStore(d, state.Options{})
	var failed sync.Map
	var callers sync.WaitGroup
	for caller := range 3 {
		callers.Go(func() {
			for range steps {
				err := d.Write(context.Background(), "chaos", func(tx *db.Tx) error {
					for range 1 + rand.N(3) {
						ref := state.Ref{Key: fmt.Sprint(args[1], " ", rand.N(20))}
						if rand.N(8) == 0 {
							_ = s.DeleteTx(tx, ref) // there may be none
						} else if _, err := s.SetTx(tx, ref, json.RawMessage("2")); err != nil {
							return err
						}
					}
					if rand.N(5) == 0 {
						return errChanged
					}
					return nil
				})
				if err != nil && !strings.Contains(err.Error(), errChanged.Error()) {
					failed.Store(caller, err)
				}
				<-time.After(rand.N(time.Millisecond))
			}
		})
	}
	callers.Wait()
	failed.Range(func(_, f any) bool { err = f.(error); return false })
	fmt.Println("done")
	return err
}

var errChanged = fmt.Errorf("it changed its mind")

// values is the stream of what a package that knows none of its own is told of state.
var values = stores.Stream[string, int64]{
	Op: "listen", Name: "value", Table: "state_values", Key: "id",
	End: `SELECT id AS key, changes AS seen, '' AS status FROM state_values WHERE id = ?`,
	Read: func(rx *db.Rx, at stores.Place, _ paging.Room) (got stores.Stretch[string, int64], err error) {
		found, err := rx.Find(&got.Of, `SELECT state_key FROM state_values WHERE id = ?`, at.Key)
		if err == nil && !found {
			err = txn.CursorExpired("it was removed")
		}
		if err == nil {
			err = rx.Get(&got.Seen, `SELECT changes FROM state_values WHERE id = ?`, at.Key)
		}
		if err == nil && got.Seen > at.Seen {
			got.Items = []stores.Placed[int64]{{Position: got.Seen, Item: got.Seen}}
		}
		return got, err
	},
}

// valuesBetween counts the looks at more than one value.
func valuesBetween(wide *atomic.Int64) func(rx *db.Rx, behind, last int64) ([]stores.Head[string], error) {
	return func(rx *db.Rx, behind, last int64) (heads []stores.Head[string], err error) {
		if last-behind > 1 {
			wide.Add(1)
		}
		return heads, rx.Select(&heads, `SELECT id AS key, state_key AS of, changes AS seen, '' AS status, 0 AS out
			FROM state_values WHERE id > ? AND id <= ? ORDER BY id`, behind, last)
	}
}

func openValues(t *testing.T) (path string, d *db.DB) {
	t.Helper()
	path = dbtest.Path(t)
	d = dbtest.OpenAt(t, path, db.Options{})
	must(t, set(d, "first", 10))
	return path, d
}

func listenValues(t *testing.T, d *db.DB) (told *dbtest.Listener[string, int64], wide *atomic.Int64) {
	t.Helper()
	wide = new(atomic.Int64)
	items := stores.FollowAll(t.Context(), d, values, t.Name(), valuesBetween(wide))
	return dbtest.Listen(t, items, spelled), wide
}

func spelled(f told) string {
	if f.Gone {
		return f.Of + " gone"
	}
	return fmt.Sprint(f.Of, ": ", f.Item)
}

// noted waits until a writer asks again whether somebody listens.
const noted = 150 * time.Millisecond

func TestFollowAll_PollsOnlyWhatWasTouched(t *testing.T) {
	path, d := openValues(t)
	other := dbtest.Start(t, "setter", path)
	told, wide := listenValues(t, d)
	set1 := func(name string) { other.Send(name + " 1"); other.Expect("set") }
	<-time.After(noted)
	set1("other")
	told.Hears("other 0: 1")
	wide.Store(0)
	for i := range 50 {
		set1("other")
		told.Hears(fmt.Sprint("other 0: ", i+2))
		must(t, set(d, "own", 1))
		told.Hears(fmt.Sprint("own 0: ", i+1))
	}
	must(t, state.NewStore(d, state.Options{}).Delete(t.Context(), state.Ref{Key: "own 0"}))
	told.Hears("own 0 gone")
	// A note that comes late, as from a process that had no time, is a look at all.
	if n := wide.Load(); n > 25 {
		t.Errorf("it looked at all %d times in 101 commits", n)
	}
}

func TestFollowAll_MissesNoUnnotedCommit(t *testing.T) {
	for name, unnoted := range map[string]func(t *testing.T, path string){
		"of more rows than a note has": func(t *testing.T, path string) {
			p := dbtest.Start(t, "setter", path)
			<-time.After(noted)
			p.Send("first 500")
			p.Expect("set")
		},
		"of a program that is not ours": func(t *testing.T, path string) {
			cmd := exec.Command("sqlite3", path)
			cmd.Stdin = strings.NewReader(".timeout 10000\nUPDATE state_values SET changes = changes + 1 WHERE " +
				"state_key = 'first 9';")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("sqlite3: %v: %s", err, out)
			}
		},
		"of a process that notes elsewhere": func(t *testing.T, path string) {
			must(t, os.Remove(path+"-lock"))
			p := dbtest.Start(t, "setter", path)
			p.Send("first 10")
			p.Expect("set")
		},
		"whose note was cut off": func(t *testing.T, path string) {
			p := dbtest.Start(t, "setter", path)
			<-time.After(noted)
			stop := make(chan struct{})
			var cutting sync.WaitGroup
			cutting.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_ = os.Truncate(path+"-lock", rand.N(int64(2048)))
					}
				}
			})
			defer cutting.Wait()
			defer close(stop)
			p.Send("first 10")
			p.Expect("set")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, d := openValues(t)
			items := stores.FollowAll(t.Context(), d, values, t.Name(), valuesBetween(new(atomic.Int64)))
			unnoted(t, path)
			list, _ := dbtest.ToldUntil(t, items, spelled, "first 9: 2")
			if len(list) == 0 {
				t.Error("nothing was told")
			}
			must(t, set(d, "last", 1))
		})
	}
}

// Writers that are killed, fail and lose their notes hide nothing from a follower.
func TestFollowAll_KnowsAllAfterChaos(t *testing.T) {
	path, d := openValues(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	known := make(map[string]int64)
	var mu sync.Mutex
	var following sync.WaitGroup
	next, leave := iter.Pull2(stores.FollowAll(ctx, d, values, t.Name(), valuesBetween(new(atomic.Int64))))
	following.Go(func() {
		for {
			f, err, _ := next()
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			switch was := known[f.Of]; {
			case f.Gone:
				delete(known, f.Of)
			case f.Item == was && !strings.HasPrefix(f.Of, "chaos"):
				t.Errorf("%s is told twice", spelled(f))
			default:
				known[f.Of] = f.Item
			}
			mu.Unlock()
		}
	})
	for round := range 6 {
		a := dbtest.Start(t, "chaotic", path, "chaos a", "60")
		b := dbtest.Start(t, "chaotic", path, "chaos b", "1000000")
		if round%3 == 1 {
			must(t, os.WriteFile(path+"-lock", []byte(strings.Repeat("damage", 4096*round)), 0o600))
		}
		if round%3 == 2 {
			must(t, os.Truncate(path+"-lock", 0))
		}
		a.Expect("done")
		a.Wait()
		b.Kill()
		must(t, set(d, "own", 3))
	}
	var want []struct {
		Name    string `db:"state_key"`
		Changes int64  `db:"changes"`
	}
	must(t, d.Read(t.Context(), "read", func(rx *db.Rx) error {
		want = nil
		return rx.Select(&want, `SELECT state_key, changes FROM state_values WHERE state_key NOT LIKE 'first%'`)
	}))
	dbtest.Await(t, "all that is there", func() bool {
		mu.Lock()
		defer mu.Unlock()
		if len(known) != len(want) {
			return false
		}
		for _, v := range want {
			if known[v.Name] != v.Changes {
				return false
			}
		}
		return true
	})
	stop()
	following.Wait()
	leave()
}

// A run waits because of its steps, whose table has no row numbers.
func TestWatch_NamesTheRunOfAStep(t *testing.T) {
	for _, path := range []string{":memory:", dbtest.Path(t)} {
		d := dbtest.OpenAt(t, path, db.Options{})
		write(t, d, `INSERT INTO scopes (id, name) VALUES (77, 'steps')`)
		write(t, d, `INSERT INTO runs (key, scope, agent_id, run_id, status, others) VALUES (5, 77, 'a', 'r',
			'in_progress', 0)`)
		feed, err := d.Store().Engine.Watch(t.Context(), engine.Runs)
		must(t, err)
		for _, change := range []string{
			`INSERT INTO run_steps (run, step_key, kind, state, prompt, attempt, epoch, turn, created_at, changed_at)
				VALUES (5, 's', 'question', 'waiting', 'p', 1, 1, 0, 1, 1)`,
			`UPDATE run_steps SET state = 'done' WHERE run = 5`,
			`DELETE FROM run_steps WHERE run = 5`,
			`INSERT OR REPLACE INTO runs (key, scope, agent_id, run_id, status, others) VALUES (6, 77, 'a', 'r',
				'in_progress', 0)`, // instead of the first
			`UPDATE runs SET key = 5 WHERE key = 6`,
		} {
			write(t, d, change)
			if keys, all := feed.Take(); all || !slices.Contains(keys, 5) {
				t.Errorf("%s: after %s it names %v, all %v", path, change, keys, all)
			}
		}
	}
}
