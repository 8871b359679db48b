package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

var programs = map[string]dbtest.Program{"holder": holder, "mover": mover, "teller": teller}

func TestMain(m *testing.M) {
	dbtest.Main(m, programs)
}

// holder takes one of everything under the name args[1], says so, and waits to be killed or for the
// end of its input.
func holder(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	if err := hold(d, "", args[1]); err != nil {
		return err
	}
	fmt.Println("holds")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, d.Close())
}

// hold takes one of everything: a trace with a lease and one without, and one whose run waits at a
// checkpoint besides.
func hold(d *db.DB, scope, name string) error {
	ctx := context.Background()
	traces, shown := runs.NewStore(d, runs.Options{Scope: scope}), live.NewStore(d, live.Options{Scope: scope})
	paused := checkpoints.NewStore(d, checkpoints.Options{Scope: scope})
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	for _, run := range []string{name + "-trace", name + "-waits"} {
		note(traces.WriteStarted(ctx, runs.Started{RunID: run, AgentID: "a"}))
		_, err := shown.Begin(ctx, live.Start{ID: run})
		note(err)
	}
	_, err := traces.Begin(ctx, runs.Started{RunID: name + "-held", AgentID: "a"}, runs.BeginOptions{})
	note(err)
	for _, run := range []string{name + "-waits", name + "-claimed"} {
		note(paused.Save(ctx, &checkpoints.PausedWorkflow{RunID: run}))
	}
	_, _, err = paused.Claim(ctx, name+"-claimed")
	note(err)
	registry := agents.NewRegistry(d, agents.Options{Scope: scope})
	_, _, err = registry.TryLeaseThread(ctx, name, db.LeaseTerms{TTL: time.Hour},
		func(string) (agents.Entry, error) {
			return agents.Entry{SessionID: name, Thread: name, BaseState: "none", Status: agents.Active}, nil
		})
	note(err)
	_, err = d.Reserve(ctx, "port", name, db.ReserveOptions{Scope: scope})
	note(err)
	return errors.Join(errs...)
}

// stands tells of all that hold takes how it stands.
func stands(t *testing.T, d *db.DB, scope string) (list []string) {
	t.Helper()
	for r, err := range runs.NewStore(d, runs.Options{Scope: scope}).All(t.Context(), runs.Filter{}) {
		list = append(list, fmt.Sprint(r.Ref.RunID, " ", r.Status, err))
	}
	for r, err := range live.NewStore(d, live.Options{Scope: scope}).All(t.Context(), live.Filter{}) {
		list = append(list, fmt.Sprint(r.ID, " ", r.Status, err))
	}
	for c, err := range checkpoints.NewStore(d, checkpoints.Options{Scope: scope}).All(t.Context(),
		checkpoints.Filter{}) {
		list = append(list, fmt.Sprint(c.RunID, " ", c.State, err))
	}
	for e, err := range agents.NewRegistry(d, agents.Options{Scope: scope}).All(t.Context(), agents.Filter{}) {
		list = append(list, fmt.Sprint(e.SessionID, " ", e.Status, err))
	}
	for r, err := range d.AllReservations(t.Context(), db.ReservationFilter{Scope: scope, Kind: "port"}) {
		list = append(list, fmt.Sprint(r.Kind, " ", r.Name, err))
	}
	slices.Sort(list)
	return list
}

func TestRecovery_TakesDeadSparesLiving(t *testing.T) {
	path := dbtest.Path(t)
	one, two := dbtest.OpenAt(t, path, db.Options{}), dbtest.OpenAt(t, path, db.Options{})
	for scope, d := range map[string]*db.DB{"": one, "other": two} {
		if err := hold(d, scope, "own"); err != nil {
			t.Fatal(err)
		}
	}
	processes := map[string]*dbtest.Process{}
	for _, name := range []string{"dead", "lives", "stopped"} {
		processes[name] = dbtest.Start(t, "holder", path, name)
		processes[name].Expect("holds")
	}
	before, other := stands(t, one, ""), stands(t, one, "other")
	processes["stopped"].Signal(syscall.SIGSTOP)
	for _, d := range []*db.DB{one, two} {
		if done, err := maintenance.Recover(t.Context(), d); len(done) > 0 || err != nil {
			t.Fatalf("of the living it took %+v (%v)", done, err)
		}
	}
	processes["dead"].Kill()
	done, err := maintenance.Recover(t.Context(), two)
	if err != nil {
		t.Fatal(err)
	}
	if want := []maintenance.Recovery{{
		Checkpoints: 1, Runs: 1, Live: 2, Agents: 1,
		Reservations: 1,
	}}; !slices.Equal(done, want) {
		t.Errorf("it did %+v", done)
	}
	var want []string
	became := map[string]string{
		"dead-claimed claimed": "dead-claimed paused", "dead active": "dead abandoned", "port dead": "",
	}
	for _, was := range before {
		is, changes := became[strings.TrimSuffix(was, "<nil>")]
		switch {
		case changes && is == "":
		case changes:
			want = append(want, is+"<nil>")
		default:
			want = append(want, was)
		}
	}
	slices.Sort(want)
	if got := stands(t, one, ""); !slices.Equal(got, want) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(got, "\n"))
	}
	if got := stands(t, one, "other"); !slices.Equal(got, other) {
		t.Errorf("in the other scope:\n%s", strings.Join(got, "\n"))
	}
	if done, err := maintenance.Recover(t.Context(), one); len(done) > 0 || err != nil {
		t.Errorf("a second time it did %+v (%v)", done, err)
	}
	processes["stopped"].Signal(syscall.SIGCONT)
	processes["lives"].Wait()
	processes["stopped"].Wait()
}

func TestARecoveryThatIsInterruptedEndsWithTheCause(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if done, err := maintenance.Recover(ctx, d); len(done) > 0 || !errors.Is(err, why) {
		t.Errorf("%+v, %v", done, err)
	}
}
