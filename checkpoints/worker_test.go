package checkpoints_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// A worker is a process that makes calls on a store as it is told: an order is a line of JSON, and
// so is its answer.

type order struct {
	// save, load, claim, complete (the handle of an epoch), complete_id, remove, recover, list
	Op     string `json:"op"`
	RunID  string `json:"run_id"`
	Prompt string `json:"prompt,omitempty"` // save: tells documents apart
	Epoch  int64  `json:"epoch,omitempty"`  // complete
}

type answer struct {
	Found  bool   `json:"found,omitempty"`
	Prompt string `json:"prompt,omitempty"`
	Epoch  int64  `json:"epoch,omitempty"`
	Count  int    `json:"count,omitempty"`
	Lost   bool   `json:"lost,omitempty"`
	Err    string `json:"err,omitempty"`
}

func worker(args []string) (err error) {
	d, err := db.Open(ctx, args[0], db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	store := checkpoints.NewStore(d, checkpoints.Options{})
	held := map[int64]*checkpoints.Claim{}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		a, err := obey(store, held, o)
		if errors.Is(err, db.ErrLeaseLost) {
			a.Lost = true
		} else if err != nil {
			a.Err = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return in.Err()
}

func obey(store *checkpoints.Store, held map[int64]*checkpoints.Claim, o order) (a answer, err error) {
	switch o.Op {
	case "save":
		p := sample(o.RunID)
		p.Prompt = o.Prompt
		err = store.Save(ctx, p)
	case "load":
		var p *checkpoints.PausedWorkflow
		if p, a.Found, err = store.Load(ctx, o.RunID); a.Found {
			a.Prompt = p.Prompt
		}
	case "claim":
		var claim *checkpoints.Claim
		if claim, a.Found, err = store.Claim(ctx, o.RunID); a.Found {
			p, err := claim.Paused()
			if err != nil {
				return a, err
			}
			a.Prompt, a.Epoch, held[claim.Epoch()] = p.Prompt, claim.Epoch(), claim
		}
	case "complete":
		err = held[o.Epoch].Complete(ctx)
	case "complete_id":
		err = store.Complete(ctx, o.RunID)
	case "remove":
		err = store.Remove(ctx, o.RunID)
	case "recover":
		a.Count, err = store.RecoverOrphaned(ctx)
	case "list":
		var ids []string
		ids, err = store.List(ctx)
		a.Prompt = strings.Join(ids, " ")
	default:
		err = fmt.Errorf("no such order: %s", o.Op)
	}
	return a, err
}

// A hand is a worker and the way to it.
type hand struct {
	t testing.TB
	*dbtest.Process
}

func startWorker(t testing.TB, path string) *hand {
	t.Helper()
	h := &hand{t, dbtest.Start(t, "worker", path)}
	h.Expect("ready")
	return h
}

func (h *hand) do(o order) answer {
	h.t.Helper()
	a, ok := h.try(o)
	if !ok || a.Err != "" {
		h.t.Fatalf("%+v: %+v (the worker lives: %v)", o, a, ok)
	}
	return a
}

// try is do for a worker that may be killed meanwhile; ok is false when it was.
func (h *hand) try(o order) (a answer, ok bool) {
	text, err := json.Marshal(o)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.TrySend(string(text)) != nil {
		return a, false
	}
	line, ok := h.Line()
	if !ok {
		return a, false
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		h.t.Fatalf("the worker said %q", line)
	}
	return a, true
}

func TestClaimsOfALivingProcessAreSafe(t *testing.T) {
	path := dbtest.Path(t)
	store := checkpoints.NewStore(dbtest.OpenAt(t, path, db.Options{}), checkpoints.Options{})
	save(t, store, "r")
	other := startWorker(t, path)
	epoch := other.do(order{Op: "claim", RunID: "r"}).Epoch
	wantRecovered(t, store, 0)
	other.Signal(syscall.SIGSTOP)
	wantRecovered(t, store, 0)
	wantNoClaim(t, store, "r")
	if err := store.Complete(ctx, "r"); !errors.Is(err, db.ErrLeaseLost) ||
		!strings.Contains(err.Error(), fmt.Sprint(other.Pid())) {
		t.Errorf("completing its claim by id: %v", err)
	}
	other.Signal(syscall.SIGCONT)
	other.do(order{Op: "complete", Epoch: epoch})
	other.Wait()
	wantRecovered(t, store, 0)
}

func TestClaimsOfADeadProcessAreRecoveredOnce(t *testing.T) {
	path := dbtest.Path(t)
	store := checkpoints.NewStore(dbtest.OpenAt(t, path, db.Options{}), checkpoints.Options{})
	for _, id := range []string{"a", "b", "c"} {
		save(t, store, id)
	}
	other := startWorker(t, path)
	other.do(order{Op: "claim", RunID: "a"})
	other.do(order{Op: "claim", RunID: "b"})
	other.Signal(syscall.SIGSTOP)
	other.Kill()
	wantRecovered(t, store, 2)
	wantRecovered(t, store, 0)
	wantList(t, store, "a", "b", "c")
}

func TestAnExpiredClaimIsTakenFromALivingProcess(t *testing.T) {
	boot := db.BootTime{Boot: "this start", Since: time.Hour}
	d := dbtest.Open(t, db.Options{BootTime: func() db.BootTime { return boot }})
	store := checkpoints.NewStore(d, checkpoints.Options{ClaimTTL: time.Minute})
	path := d.Path()
	save(t, store, "mine")
	save(t, store, "theirs")
	mine := mustClaim(t, store, "mine")

	// Another living process holds a claim that lasts a minute on the same clock.
	other := startWorker(t, path)
	other.do(order{Op: "claim", RunID: "theirs"})
	check(t, d.Write(ctx, "give the claim a lease", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE checkpoints SET lease_ttl = ?, lease_until = ?, lease_boot_id = ?
			WHERE run_id = 'theirs'`,
			int64(time.Minute), int64(boot.Since+time.Minute), boot.Boot)
		return err
	}))
	boot.Since += time.Minute - 1
	check(t, mine.Renew(ctx))
	wantRecovered(t, store, 1) // mine: recovery is for the beginning of a program
	boot.Since++
	wantRecovered(t, store, 1) // theirs
	wantList(t, store, "mine", "theirs")

	again := mustClaim(t, store, "mine")
	boot = db.BootTime{Boot: "the next start"}
	one, err := store.Get(ctx, checkpoints.Ref{RunID: "mine"})
	if err != nil || one.Claim.Expired {
		t.Errorf("where the clock can't tell, the process's lock does: %+v, %v", one, err)
	}
	check(t, again.Renew(ctx))
	check(t, again.Complete(ctx))
}

func TestReopen_ProcessHoldsLaterClaims(t *testing.T) {
	path := dbtest.Path(t)
	d, err := db.Open(ctx, path, db.Options{})
	check(t, err)
	store := checkpoints.NewStore(d, checkpoints.Options{})
	save(t, store, "before")
	save(t, store, "after")
	mustClaim(t, store, "before")
	check(t, d.Close())

	store = checkpoints.NewStore(dbtest.OpenAt(t, path, db.Options{}), checkpoints.Options{})
	mustClaim(t, store, "after")
	other := startWorker(t, path)
	if n := other.do(order{Op: "recover"}).Count; n != 1 {
		t.Errorf("another process recovers %d claims of this one, want that of the file that was closed", n)
	}
	wantList(t, store, "before")
	check(t, store.Complete(ctx, "after"))
	other.Wait()
}
