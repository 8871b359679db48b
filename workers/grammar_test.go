package workers_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/migrations"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
	"selvedge/workers"
)

func TestFind_WorkersByIDPrefix(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	for range 17 {
		must(r.CreateWorker(ctx, taskRequest("x")))(t)
	}
	for prefix, want := range map[string]int{
		"": 17, "worker-0000000": 15, "worker-0000001": 2,
		"worker-00000011": 1, "x": 0,
	} {
		found := must(r.Find(ctx, prefix, 0))(t)
		if len(found) != want {
			t.Errorf("%q finds %d workers", prefix, len(found))
		}
		for _, ref := range found {
			if detail := must(r.Get(ctx, ref))(t); detail.WorkerRef != ref ||
				!strings.HasPrefix(string(ref.WorkerID), prefix) {
				t.Errorf("%q finds %+v", prefix, ref)
			}
		}
	}
	if found := must(r.Find(ctx, "worker", 3))(t); len(found) != 3 {
		t.Errorf("three of them are %d", len(found))
	}
	for _, bad := range []struct {
		prefix string
		limit  int
	}{{"\xff", 1}, {"", -1}, {"", 1001}} {
		if _, err := r.Find(ctx, bad.prefix, bad.limit); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%q, %d gave %v", bad.prefix, bad.limit, err)
		}
	}
}

func TestATranscriptComesInPages(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{Limits: &workers.RuntimeLimits{}})
	w := must(r.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef
	other := must(r.CreateWorker(ctx, taskRequest("y")))(t).WorkerRef
	for i := range 7 {
		must(r.SendInput(ctx, w, workers.UserInput(fmt.Sprint(i))))(t)
	}
	var got []string
	at := db.At{Limit: 3}
	for {
		page := must(r.TranscriptPage(ctx, w, at))(t)
		for _, e := range page.Items {
			got = append(got, e.Content)
		}
		if page.Next == "" {
			break
		}
		at.After = page.Next
	}
	if want := []string{"0", "1", "2", "3", "4", "5", "6"}; !slices.Equal(got, want) {
		t.Errorf("the pages have %v", got)
	}
	n := 0
	for e, err := range r.Transcript(ctx, w) {
		if err != nil || e.Sequence != uint64(n+1) {
			t.Fatalf("entry %d, %v", e.Sequence, err)
		}
		n++
	}
	if n != 7 {
		t.Errorf("%d entries came", n)
	}
	if _, err := r.TranscriptPage(ctx, other, at); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("another worker's cursor gave %v", err)
	}
	if err := r.Delete(ctx, w); err != nil {
		t.Fatal(err)
	}
	if _, err := r.TranscriptPage(ctx, other, at); !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("a removed worker's cursor gave %v", err)
	}
	for _, err := range r.Transcript(ctx, w) {
		if !errors.Is(err, db.ErrNotFound) {
			t.Errorf("a removed worker gave %v", err)
		}
	}
	if s := must(r.Summary(ctx))(t); s.WorkerCount != 1 {
		t.Errorf("%d workers are counted", s.WorkerCount)
	}
	if err := r.Delete(ctx, w); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("removing it again gave %v", err)
	}
}

func TestRuntimesOfAScope(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	all, none := workers.NewRuntimes(d, ""), workers.NewRuntimes(d, "never written")
	for _, id := range []workers.RuntimeID{"b", "a", "ab"} {
		r := open(t, d, workers.RuntimeOptions{RuntimeID: id})
		if id != "a" {
			must(r.StopRuntime(ctx))(t)
		}
	}
	list := func(f workers.RuntimeFilter) (ids []string) {
		for at := (db.At{Limit: 1}); ; {
			page := must(all.Page(ctx, f, at))(t)
			for _, r := range page.Items {
				ids = append(ids, string(r.RuntimeID))
			}
			if at.After = page.Next; at.After == "" {
				return ids
			}
		}
	}
	if got := list(workers.RuntimeFilter{}); !slices.Equal(got, []string{"a", "ab", "b"}) {
		t.Errorf("the runtimes are %v", got)
	}
	if got := list(workers.RuntimeFilter{Status: workers.Stopped}); !slices.Equal(got,
		[]string{"ab", "b"}) {
		t.Errorf("those that stopped are %v", got)
	}
	if got := must(all.Find(ctx, "a", 0))(t); !slices.Equal(got, []workers.RuntimeID{"a", "ab"}) {
		t.Errorf("a finds %v", got)
	}
	if s := must(all.Get(ctx, "ab"))(t); s.Status != workers.Stopped {
		t.Errorf("ab is %+v", s)
	}
	for what, err := range map[string]error{
		"get": second(none.Get(ctx, "a")), "get of none": second(all.Get(ctx, "c")),
		"delete": all.Delete(ctx, "c"), "delete elsewhere": none.Delete(ctx, "a"),
	} {
		if !errors.Is(err, db.ErrNotFound) || db.Hint(err) == "" {
			t.Errorf("%s gave %v", what, err)
		}
	}
	if page := must(none.Page(ctx, workers.RuntimeFilter{}, db.At{}))(t); len(page.Items) != 0 {
		t.Errorf("a scope that was never written to has %+v", page.Items)
	}
}

// The cursor of a list is one of its runtime's, though both have a worker of that id.
func TestACursorOfAListBelongsToItsRuntime(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	a, b := open(t, d, workers.RuntimeOptions{RuntimeID: "a"}),
		open(t, d, workers.RuntimeOptions{RuntimeID: "b"})
	for range 2 {
		must(a.CreateWorker(ctx, taskRequest("x")))(t)
		must(b.CreateWorker(ctx, taskRequest("x")))(t)
	}
	page := must(a.Page(ctx, workers.WorkerFilter{}, db.At{Limit: 1}))(t)
	if _, err := b.Page(ctx, workers.WorkerFilter{}, db.At{After: page.Next}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("another runtime's cursor gave %v", err)
	}
}

func TestFollowAll_FilterTakesRuntimesOnceTheyPass(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	runs, stops := open(t, d, workers.RuntimeOptions{RuntimeID: "a runs"}),
		open(t, d, workers.RuntimeOptions{RuntimeID: "b stops"})
	stopped := workers.NewRuntimes(d, "").FollowAll(ctx, workers.RuntimeFilter{Status: workers.Stopped})
	must(runs.CreateWorker(ctx, taskRequest("not told")))(t)
	must(stops.StopRuntime(ctx))(t)
	for item, err := range stopped {
		if err != nil {
			t.Fatal(err)
		}
		if item.Of != "b stops" {
			t.Errorf("it was told of %q", item.Of)
		}
		if item.What == db.StatusChanged {
			break
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestDelete_TakesRuntimeAndNothingElse(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	stays := open(t, d, workers.RuntimeOptions{RuntimeID: "stays"})
	large := open(t, d, workers.RuntimeOptions{RuntimeID: "large"})
	must(stays.CreateWorker(ctx, taskRequest("x")))(t)
	err := d.Write(ctx, "fill", func(tx *db.Tx) error {
		for range 3 {
			w, err := large.CreateWorkerTx(tx, taskRequest("x"))
			for range 2500 { // more than go in one transaction
				if err == nil {
					_, err = large.SendInputTx(tx, w.WorkerRef, workers.UserInput("x"))
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = workers.NewRuntimes(d, "").Delete(ctx, "large")
	}
	if err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int{
		"worker_runtimes": 1, "workers": 1, "worker_requests": 1, "worker_events": 2, "worker_entries": 0,
		"worker_diagnostics": 0,
	} {
		if n := dbtest.CheckSums(t, d, table); n != want {
			t.Errorf("%s has %d rows", table, n)
		}
	}
}

// A worker and its first input in one transaction: both or neither.
func TestCallsJoinATransactionOfTheCallers(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	r := open(t, d, workers.RuntimeOptions{})
	enough := errors.New("enough")
	var w workers.WorkerDetail
	both := func(end error) error {
		return d.Write(ctx, "create and tell", func(tx *db.Tx) (err error) {
			if w, err = r.CreateWorkerTx(tx, taskRequest("x")); err != nil {
				return err
			}
			if _, err = r.SendInputTx(tx, w.WorkerRef, workers.UserInput("begin")); err != nil {
				return err
			}
			return end
		})
	}
	if err := both(enough); !errors.Is(err, enough) {
		t.Errorf("the transaction gave %v", err)
	}
	if s := must(r.Summary(ctx))(t); s.WorkerCount != 0 {
		t.Errorf("%d workers are left of it", s.WorkerCount)
	}
	if err := both(nil); err != nil {
		t.Fatal(err)
	}
	err := d.Write(ctx, "look, stop and remove", func(tx *db.Tx) error {
		detail, err := r.GetTx(&tx.Rx, w.WorkerRef)
		if err != nil || detail.TranscriptLen != 1 {
			return fmt.Errorf("it has heard %d: %w", detail.TranscriptLen, err)
		}
		if _, err := r.CancelWorkerTx(tx, w.WorkerRef, nil); err != nil {
			return err
		}
		if _, err := r.StopWorkerTx(tx, w.WorkerRef, nil); err != nil {
			return err
		}
		if err := r.DeleteTx(tx, w.WorkerRef); err != nil {
			return err
		}
		_, err = r.StopRuntimeTx(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := must(r.Summary(ctx))(t); s.WorkerCount != 0 || s.Status != workers.Stopped {
		t.Errorf("it ended as %+v", s)
	}
}

func TestARepeatedInputIsSaidOnce(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	r := open(t, d, workers.RuntimeOptions{})
	w := must(r.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef
	input := workers.UserInput("begin")
	first := must(r.SendInput(ctx, w, input))(t)
	must(r.SendInput(ctx, w, workers.UserInput("go on")))(t)
	var batches []int64
	err := d.Read(ctx, "look", func(rx *db.Rx) error {
		return rx.Select(&batches,
			`SELECT batch FROM worker_entries ORDER BY id`)
	})
	if err != nil || len(batches) != 2 || batches[0] == batches[1] {
		t.Fatalf("two inputs left the numbers %d: %v", batches, err)
	}
	if ack := must(r.SendInput(ctx, w, repeat(input, batches[0])))(t); ack != first {
		t.Errorf("the repeat of an input that was kept gave %+v, not %+v", ack, first)
	}
	if ack := must(r.SendInput(ctx, w, repeat(input, batches[0]+1<<40)))(t); ack.TranscriptSequence != 3 {
		t.Errorf("the repeat of an input that was not kept gave %+v", ack)
	}
	must(r.StopRuntime(ctx))(t)
	if ack := must(r.SendInput(ctx, w, repeat(input, batches[0])))(t); ack.EventID != first.EventID {
		t.Errorf("behind the runtime's end the repeat gave %+v", ack)
	}
	if _, err := r.SendInput(ctx, w, repeat(input, batches[0]+1<<40)); !isKind(err, "RuntimeStopped") {
		t.Errorf("behind the runtime's end one that was not kept gave %v", err)
	}
}

func TestSendInput_RepeatsInOneTxStayApart(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	r := open(t, d, workers.RuntimeOptions{})
	w := must(r.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef
	var number int64
	both := func(repeated int64) (acks [2]workers.WorkerInteractionAck, err error) {
		err = d.Write(ctx, "inputs", func(tx *db.Tx) (err error) {
			number = tx.Batch()
			for i, text := range []string{"begin", "go on"} {
				if acks[i], err = r.SendInputTx(tx, w, repeat(workers.UserInput(text), repeated)); err != nil {
					return err
				}
			}
			return nil
		})
		return acks, err
	}
	first := must(both(0))(t)
	if again := must(both(number))(t); again != first {
		t.Errorf("the repeats gave %+v, not %+v", again, first)
	}
}

// Every row's checksum is that of what the declaration says, also after changes and an import.
func TestChecksumsCoverWhatTheSchemaSays(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	for _, tree := range must(replay.Trees("workers"))(t) {
		if strings.HasSuffix(tree.Name, "awkward") {
			importWorkers(t, d, unpackWorkers(t, tree))
		}
	}
	name := "name"
	r := open(t, d, workers.RuntimeOptions{Scope: "s", RuntimeID: "r", DisplayName: &name})
	q := workers.CreateWorkerRequest{
		Intent:                workers.WorkerIntent{Kind: "role", Role: "reviewer", Purpose: new("p")},
		Profile:               workers.NamedProfile("n"),
		ConfigBundle:          &workers.ConfigBundleRef{ID: "b"},
		RequestedCapabilities: []workers.CapabilityRequest{workers.NamedCapability("read")},
		WorkspaceRefs:         []workers.WorkspaceRef{{Name: "w", Reference: "x"}},
		MountRefs:             []workers.MountRef{{Name: "m", Reference: "y"}},
	}
	w := must(r.CreateWorker(ctx, q))(t).WorkerRef
	must(r.SendInput(ctx, w, workers.UserInput("x")))(t)
	must(r.CancelWorker(ctx, w, nil))(t)
	must(r.CreateWorker(ctx, taskRequest("x")))(t)
	must(r.PruneEvents(ctx, workers.EventCursor{RuntimeID: "r", NextEventID: 2}))(t)
	must(r.StopRuntime(ctx))(t)
	for _, sum := range migrations.Checksums {
		if strings.HasPrefix(sum.Table, "worker") && dbtest.CheckSums(t, d, sum.Table) == 0 {
			t.Errorf("%s has no rows", sum.Table)
		}
	}
}

// The last place in the log, and the last id, are given; then the log is full.
func TestAFullLogRefusesEventsAndChangesNothing(t *testing.T) {
	ctx := t.Context()
	for name, full := range map[string]string{
		"places": `UPDATE worker_runtimes SET next_event_position = 1099511627774, next_event_id = 1099511627774,
			checksum = NULL`,
		"ids": `UPDATE worker_runtimes SET next_event_id = -2, events_in_order = 0, checksum = NULL`,
	} {
		d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
		r := open(t, d, workers.RuntimeOptions{})
		err := d.Write(ctx, "fill", func(tx *db.Tx) error {
			_, err := tx.Exec(full)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		must(r.CreateWorker(ctx, taskRequest("last")))(t)
		if _, err := r.CreateWorker(ctx, taskRequest("one more")); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: one more event gave %v", name, err)
		}
		if s := must(r.Summary(ctx))(t); s.WorkerCount != 1 {
			t.Errorf("%s: %d workers are there", name, s.WorkerCount)
		}
	}
}

func TestPruneKeepsWhatThePolicyKeeps(t *testing.T) {
	ctx := t.Context()
	clock := dbtest.NewClock(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		policy db.Policy
		left   string
	}{
		"nothing asked": {db.Policy{}, "1 2 3 4 5"},
		"by age":        {db.Policy{Age: 36 * time.Hour}, "2 4 5"},
		"by count":      {db.Policy{Count: 1}, "2 5"},
		"by bytes":      {db.Policy{Bytes: 9000}, "2 5"},
		"pinned":        {db.Policy{Bytes: 1, Pinned: []string{"worker-00000001"}}, "1 2"},
		"only counted":  {db.Policy{Bytes: 1, DryRun: true}, "1 2 3 4 5"},
	} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now})
			r := open(t, d, workers.RuntimeOptions{RuntimeID: "r"})
			other := open(t, d, workers.RuntimeOptions{RuntimeID: "r", Scope: "other"})
			for i := range 5 {
				w := must(r.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef
				for range 50 {
					must(r.SendInput(ctx, w, workers.UserInput(strings.Repeat("x", 100))))(t)
				}
				if i != 1 {
					must(r.StopWorker(ctx, w, nil))(t)
				}
				clock.Advance(24 * time.Hour)
			}
			must(other.CancelWorker(ctx, must(other.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef, nil))(t)
			clock.Advance(-12 * time.Hour)
			done := must(workers.NewRuntimes(d, "").Prune(ctx, c.policy))(t)
			var left []string
			for _, w := range must(r.ListWorkers(ctx))(t) {
				left = append(left, strings.TrimPrefix(string(w.WorkerID), "worker-0000000"))
			}
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("%q are left, not %q", got, c.left)
			}
			gone := 5 - len(left)
			if c.policy.DryRun {
				gone = 4
			}
			if done.Removed != gone || done.Remaining != 4-gone || done.Bytes != int64(gone)*5000 {
				t.Errorf("it says %+v", done)
			}
			if n := len(must(other.ListWorkers(ctx))(t)); n != 1 {
				t.Errorf("%d workers of another scope are left", n)
			}
		})
	}
}

func TestATransactionOfAnotherFileIsRefused(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{RuntimeID: "r"})
	w := must(r.CreateWorker(ctx, taskRequest("x")))(t).WorkerRef
	d, elsewhere := dbtest.Open(t, db.Options{}), dbtest.Open(t, db.Options{})
	all := workers.NewRuntimes(d, "")
	err := elsewhere.Write(ctx, "elsewhere", func(tx *db.Tx) error {
		_, created := r.CreateWorkerTx(tx, taskRequest("x"))
		_, sent := r.SendInputTx(tx, w, workers.UserInput("x"))
		_, stopped := r.StopWorkerTx(tx, w, nil)
		_, ended := r.StopRuntimeTx(tx)
		_, got := r.GetTx(&tx.Rx, w)
		_, page := r.PageTx(&tx.Rx, workers.WorkerFilter{}, db.At{})
		_, found := r.FindTx(&tx.Rx, "", 1)
		_, said := r.TranscriptPageTx(&tx.Rx, w, db.At{})
		_, events := r.EventsPageTx(&tx.Rx, db.At{})
		_, runtime := all.GetTx(&tx.Rx, "r")
		_, runtimes := all.PageTx(&tx.Rx, workers.RuntimeFilter{}, db.At{})
		for i, err := range []error{
			created, sent, stopped, ended, got, page, found, said, events, runtime,
			runtimes, r.DeleteTx(tx, w), all.DeleteTx(tx, "r"),
		} {
			if !errors.Is(err, db.ErrInvalid) {
				return fmt.Errorf("call %d gave %w", i, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// repeat returns the input as the repeat of one with this number.
func repeat(input workers.WorkerInput, batch int64) workers.WorkerInput {
	input.Repeat = batch
	return input
}
