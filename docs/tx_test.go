package docs_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// withoutTx are the calls that have no form for a transaction of the caller's, and why.
var withoutTx = func() map[string]string {
	list := map[string]string{}
	for why, names := range map[string][]string{
		"it works in many short transactions, so that nobody waits for the writer": {
			"runs.Store.GC", "runs.Store.Prune", "runs.Store.Recover", "runs.Store.AdoptOrphans", "live.Store.Prune",
			"live.Store.Recover",
			"agents.Registry.Prune", "agents.Registry.ReapDead", "agents.Registry.ReapDeadForThread",
			"agents.Registry.Recover", "checkpoints.Store.Prune", "checkpoints.Store.Recover",
			"checkpoints.Store.RecoverOrphaned",
			"workers.Runtimes.Prune", "workers.Runtime.PruneEvents", "state.Store.Prune",
		},
		"it goes on beyond any transaction": {
			"runs.Run.Keep", "live.Run.Keep", "agents.Lease.Keep",
			"checkpoints.Claim.Keep",
		},
		"it is the transaction, and HoldTx asks in one": {"agents.Lease.Hold", "checkpoints.Claim.Hold"},
		"db.Reattach looks in a transaction of its own": {"runs.Store.Reattach", "live.Store.Reattach"},
		"it follows the links of paths, on file systems that may hang": {
			"agents.Registry.FindActiveByPath", "agents.Registry.FindActiveByNativeInstanceKeyAtPath",
		},
		"it draws an id, and CreateRunWithIDTx takes one": {"live.Store.CreateRun"},
		"it is about the whole scope":                     {"live.Store.Records", "live.Store.ReplaceRecords"},
		"an old call, for which AppendTx does": {
			"runs.Store.AppendRecords", "runs.Store.AppendTurns", "runs.Store.WriteStarted", "runs.Store.WriteEnded",
			"live.Store.RecordEvent",
		},
		"an old call, for which TryReserveThreadTx does": {"agents.Registry.CreateGeneratedEntryForThread"},
		"an old call, for which GetTx, FindTx, PageTx, TracePageTx, EventsPageTx and TranscriptPageTx do": {
			"runs.Store.AgentForRun", "runs.Store.GetRunTrace", "runs.Store.GetRunTraceFor", "runs.Store.ListRuns",
			"agents.Registry.FindActiveByClientInstanceID", "agents.Registry.FindActiveByHeddleSessionID",
			"agents.Registry.FindActiveByNativeActorKey", "agents.Registry.List", "agents.Registry.Load",
			"checkpoints.Store.List",
			"live.Store.EventPage", "live.Store.Events", "live.Store.List", "live.Store.Snapshot",
			"workers.Runtime.EventCursorFromStart", "workers.Runtime.EventCursorNow", "workers.Runtime.ListWorkers",
			"workers.Runtime.ReadEvents", "workers.Runtime.Status", "workers.Runtime.Summary",
			"workers.Runtime.TranscriptProjection", "workers.Runtime.WorkerDetail",
		},
	} {
		for _, name := range names {
			list[name] = why
		}
	}
	return list
}()

var (
	contextType = reflect.TypeFor[context.Context]()
	rxType      = reflect.TypeFor[*db.Rx]()
	txType      = reflect.TypeFor[*db.Tx]()
)

// Every call of a store, and of what is held in one, that asks for a context has a form that takes
// a transaction in its place.
func TestEveryCallHasAFormForATransaction(t *testing.T) {
	needless := map[string]bool{}
	for name := range withoutTx {
		needless[name] = true
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[*runs.Store](), reflect.TypeFor[*runs.Run](), reflect.TypeFor[*live.Store](),
		reflect.TypeFor[*live.Run](),
		reflect.TypeFor[*agents.Registry](), reflect.TypeFor[*agents.Lease](),
		reflect.TypeFor[*checkpoints.Store](),
		reflect.TypeFor[*checkpoints.Claim](), reflect.TypeFor[*workers.Runtime](),
		reflect.TypeFor[*workers.Runtimes](), reflect.TypeFor[*state.Store](),
	} {
		for call := range of.Methods() {
			if call.Type.NumIn() < 2 || call.Type.In(1) != contextType ||
				strings.HasPrefix(call.Type.Out(0).String(), "iter.Seq2[") {
				continue // what is read item by item is read in transactions of its own
			}
			name := of.String()[1:] + "." + call.Name
			if form, ok := of.MethodByName(call.Name + "Tx"); ok && sameButForTransaction(call.Type, form.Type) {
				if withoutTx[name] == "" {
					continue
				}
			} else if withoutTx[name] == "" {
				t.Errorf("%s has no form for a transaction", name)
			} else {
				delete(needless, name)
			}
		}
	}
	for name := range needless {
		t.Errorf("%s has a form for a transaction, or is not there: leave it out of the list", name)
	}
}

// sameButForTransaction reports whether form takes a transaction in place of call's context, and is
// like it besides.
func sameButForTransaction(call, form reflect.Type) bool {
	if form.NumIn() != call.NumIn() || form.NumOut() != call.NumOut() || form.In(1) != rxType &&
		form.In(1) != txType {
		return false
	}
	for i := 2; i < call.NumIn(); i++ {
		if call.In(i) != form.In(i) {
			return false
		}
	}
	for i := range call.NumOut() {
		if call.Out(i) != form.Out(i) {
			return false
		}
	}
	return true
}

// A transaction of another file is refused by every form, before anything is read or written there.
func TestEveryFormRefusesATransactionOfAnotherFile(t *testing.T) {
	d, other := dbtest.Open(t, db.Options{}), dbtest.Open(t, db.Options{})
	runtime, err := workers.Open(t.Context(), d, workers.RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = other.Write(t.Context(), "mix up", func(tx *db.Tx) error {
		for _, of := range []any{
			runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{}),
			agents.NewRegistry(d, agents.Options{}),
			checkpoints.NewStore(d, checkpoints.Options{}), runtime, workers.NewRuntimes(d, ""),
			state.NewStore(d, state.Options{}),
		} {
			v := reflect.ValueOf(of)
			for i := range v.NumMethod() {
				name, call := v.Type().Method(i).Name, v.Method(i)
				if !strings.HasSuffix(name, "Tx") {
					continue
				}
				args := []reflect.Value{reflect.ValueOf(tx)}
				if call.Type().In(0) == rxType {
					args[0] = reflect.ValueOf(&tx.Rx)
				}
				for j := 1; j < call.Type().NumIn(); j++ {
					args = append(args, plausible(call.Type().In(j)))
				}
				out := call.Call(args)
				err, _ := reflect.TypeAssert[error](out[len(out)-1])
				if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "another file") ||
					db.Hint(err) == "" {
					t.Errorf("%v.%s: %v", v.Type(), name, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A claim, the worker that goes on with it, its thread, its trace and its live run are one
// transaction: all of it is there, or none.
func TestOneTransactionHoldsWorkOfEveryStore(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	ctx, failure := t.Context(), errors.New("the function fails")
	traces, lives := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	registry, paused := agents.NewRegistry(d, agents.Options{}), checkpoints.NewStore(d, checkpoints.Options{})
	runtime, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "r"})
	if err == nil {
		err = paused.Save(ctx, &checkpoints.PausedWorkflow{
			RunID:    "r",
			Workflow: checkpoints.Workflow{ID: "w", Start: "s"},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []error{failure, nil} {
		err := d.Write(ctx, "go on", func(tx *db.Tx) error {
			_, ok, err := paused.ClaimTx(tx, "r")
			if err != nil || !ok {
				return errors.Join(err, errors.New("there is nothing to claim"))
			}
			_, created := runtime.CreateWorkerTx(tx, workers.CreateWorkerRequest{})
			_, reserved := registry.TryReserveThreadTx(tx, "main", func(id string) (agents.Entry, error) {
				return agents.Entry{SessionID: "a", Thread: "main", Status: agents.Active}, nil
			})
			_, began := traces.BeginTx(tx, runs.Started{AgentID: "a", RunID: "r"}, runs.BeginOptions{})
			_, lived := lives.BeginTx(tx, live.Start{ID: "r"})
			return errors.Join(created, reserved, began, lived, end)
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
		claimed, err := paused.Get(ctx, checkpoints.Ref{RunID: "r"})
		if err != nil || (claimed.State == checkpoints.Claimed) != (end == nil) {
			t.Errorf("after %v the checkpoint is %s (%v)", end, claimed.State, err)
		}
		_, noTrace := traces.Get(ctx, runs.RunRef{AgentID: "a", RunID: "r"})
		_, noLive := lives.Get(ctx, "r")
		_, noAgent := registry.Get(ctx, "a")
		_, noWorker := runtime.Get(ctx, workers.NewWorkerRef("r", "worker-00000001"))
		for _, missing := range []error{noTrace, noLive, noAgent, noWorker} {
			if end == nil && missing != nil || end != nil && !errors.Is(missing, db.ErrNotFound) {
				t.Errorf("after %v: %v", end, missing)
			}
		}
	}
}

// plausible makes an argument that no check of its own refuses.
func plausible(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of {
	case reflect.TypeFor[db.At]():
		return v
	case reflect.TypeFor[[]byte]():
		document, _ := (&checkpoints.PausedWorkflow{}).Document() // what can be encoded can be written
		return reflect.ValueOf(document)
	}
	switch of.Kind() {
	case reflect.String:
		v.SetString("a")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
		if of.Elem().Kind() == reflect.Struct {
			v.Elem().Set(plausible(of.Elem()))
		}
	case reflect.Func:
		v.Set(reflect.MakeFunc(of, func([]reflect.Value) (out []reflect.Value) {
			for one := range of.Outs() {
				out = append(out, reflect.Zero(one))
			}
			return out
		}))
	case reflect.Struct:
		for i := range of.NumField() {
			if f := v.Field(i); f.CanSet() && (f.Kind() == reflect.String && f.Type().PkgPath() == "" ||
				f.Kind() == reflect.Int64) {
				f.Set(plausible(f.Type()))
			}
		}
	}
	return v
}
