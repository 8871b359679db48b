package workers_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

func TestRuntime_SharedByKilledProcessesLosesNothing(t *testing.T) {
	const rounds, processes = 3, 3
	path := dbtest.Path(t)
	acknowledged := map[uint64]string{} // event id -> worker
	for round := range rounds {
		var all []*dbtest.Process
		for i := range processes {
			all = append(all, dbtest.Start(t, "sender", path, fmt.Sprint("round ", round, " process ", i)))
		}
		for range 20 {
			for _, p := range all {
				noteAcknowledged(t, acknowledged, p)
			}
		}
		for _, p := range all {
			p.Kill()
		}
	}
	r := open(t, dbtest.OpenAt(t, path, db.Options{}),
		workers.RuntimeOptions{RuntimeID: sharedRuntime, MustExist: true})
	seen := map[uint64]string{}
	last := uint64(0)
	for _, e := range allEvents(t, r) {
		if e.ID != last+1 {
			t.Fatalf("event %d comes behind %d", e.ID, last)
		}
		last = e.ID
		if e.WorkerRef != nil {
			seen[e.ID] = string(e.WorkerRef.WorkerID)
		}
	}
	for id, worker := range acknowledged {
		if seen[id] != worker {
			t.Errorf("event %d was acknowledged to %s and is of %q", id, worker, seen[id])
		}
	}
	if s := must(r.Summary(t.Context()))(t); s.WorkerCount != rounds*processes {
		t.Errorf("%d workers", s.WorkerCount)
	}
	for _, w := range must(r.ListWorkers(t.Context()))(t) {
		p := must(r.TranscriptProjection(t.Context(), w.WorkerRef, workers.NewTranscriptQuery(0, 256)))(t)
		for i, e := range p.Items {
			if e.Sequence != uint64(i+1) || seen[e.EventID] != string(w.WorkerID) {
				t.Errorf("entry %d of %s is %+v", i, w.WorkerID, e)
			}
		}
	}
}

func noteAcknowledged(t *testing.T, acknowledged map[uint64]string, p *dbtest.Process) {
	t.Helper()
	line, ok := p.Line()
	var worker string
	var id uint64
	if _, err := fmt.Sscan(line, &worker, &id); err != nil || !ok {
		t.Fatalf("the process said %q: %v; stderr: %s", line, err, p.Stderr())
	}
	if other, twice := acknowledged[id]; twice {
		t.Errorf("event id %d was given to %s and to %s", id, other, worker)
	}
	acknowledged[id] = worker
}

func allEvents(t testing.TB, r *workers.Runtime) (list []workers.RuntimeEvent) {
	t.Helper()
	cursor := must(r.EventCursorFromStart(t.Context()))(t)
	for {
		batch := must(r.ReadEvents(t.Context(), cursor, 256))(t)
		list = append(list, batch.Events...)
		if !batch.HasMore {
			return list
		}
		cursor = batch.Cursor
	}
}

func TestFollow_KilledFollowerResumes(t *testing.T) {
	path := dbtest.Path(t)
	r := open(t, dbtest.OpenAt(t, path, db.Options{}), workers.RuntimeOptions{RuntimeID: sharedRuntime})
	worker := must(r.CreateWorker(t.Context(), taskRequest("followed")))(t).WorkerRef
	next, cursor := uint64(1), ""
	for round := range 4 {
		p := dbtest.Start(t, "follower", path, cursor)
		for range 10 {
			must(r.SendInput(t.Context(), worker, workers.UserInput("x")))(t)
		}
		for last := uint64(2 + 10*(round+1)); next <= last; next++ {
			line, _ := p.Line()
			id, behind, _ := strings.Cut(line, " ")
			if cursor = behind; id != strconv.FormatUint(next, 10) {
				t.Fatalf("event %s came, not %d", id, next)
			}
		}
		p.Kill()
	}
}
