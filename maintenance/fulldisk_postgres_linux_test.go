//go:build postgres

package maintenance_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

const smallServer = "160m"

// noise is a text of so many bytes that no server makes shorter.
func noise(size int) string {
	random := make([]byte, size/4*3)
	_, _ = rand.Read(random) // never fails
	return base64.StdEncoding.EncodeToString(random)
}

// A writer appends turns to a run one by one, and knows which were acknowledged.
type writer struct {
	store *runs.Store
	ref   runs.RunRef
	next  uint64
}

func newWriter(t *testing.T, d *db.DB) *writer {
	t.Helper()
	w := &writer{store: runs.NewStore(d, runs.Options{}), ref: runs.RunRef{AgentID: "a", RunID: "written"}}
	if err := w.store.WriteStarted(t.Context(),
		runs.Started{RunID: w.ref.RunID, AgentID: w.ref.AgentID, StartedAt: theTime}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *writer) append(t *testing.T) error {
	prompt := noise(64 << 10)
	_, err := w.store.Append(t.Context(), runs.Batch{
		AgentID: w.ref.AgentID, RunID: w.ref.RunID,
		Records: []runs.Record{
			runs.Turn{Index: w.next, Prompt: &prompt, VerifierVerdict: runs.VerdictPass},
		},
	})
	if err == nil {
		w.next++
	}
	return err
}

// isAllThere fails the test unless each acknowledged turn is there once.
func (w *writer) isAllThere(t *testing.T) {
	t.Helper()
	run, err := w.store.Get(t.Context(), w.ref)
	if err != nil || run.TurnCount != int(w.next) {
		t.Errorf("%d turns were acknowledged, and there are %d: %v", w.next, run.TurnCount, err)
	}
}

func TestPostgres_FullDiskRefusesThenGoesOn(t *testing.T) {
	ctx := t.Context()
	disk := dbtest.NewPostgresDisk(t, "..", smallServer)
	d := dbtest.OpenAt(t, disk.Address, db.Options{})
	w := newWriter(t, d)
	tree := filepath.Join(t.TempDir(), "runs", "a")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf(`{"record":"started","run_id":"r","agent_id":"a","intent":%q,"started_at":"2026-05-04T09:00:00Z"}`, noise(1<<20))
	if err := os.WriteFile(filepath.Join(tree, "r.jsonl"), []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bring := func() error {
		_, err := legacy.Import(ctx, d, legacy.Runs, filepath.Join(tree, "..", ".."), legacy.Options{})
		return err
	}
	from, to := dbtest.Path(t), disk.Address+"&search_path=moved"
	filled(t, from, 4)
	want, err := answers(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	stoppedAt(t, from, to, "copy")

	disk.Fill()
	for err = nil; err == nil; { // into what room the table has
		err = w.append(t)
	}
	_, moved := maintenance.Move(ctx, from, to, db.Options{})
	for what, err := range map[string]error{"an append": err, "an import": bring(), "a move": moved} {
		if !errors.Is(err, db.ErrFull) || errors.Is(err, db.ErrOutcomeUnknown) || db.Hint(err) == "" {
			t.Errorf("%s on a full disk: %v (hint: %s)", what, err, db.Hint(err))
		}
	}
	w.isAllThere(t)

	disk.Empty()
	if err := errors.Join(w.append(t), bring()); err != nil {
		t.Error(err)
	}
	w.isAllThere(t)
	moveAlike(t, from, to, want)
}

// A server that can't write its WAL ends, and can't begin before there is room.
func TestPostgresAServerWithoutRoomForItsWALLosesNothing(t *testing.T) {
	disk := dbtest.NewPostgresDisk(t, "..", smallServer)
	w := newWriter(t, dbtest.OpenAt(t, disk.Address, db.Options{}))
	var acknowledged atomic.Int64
	ended := make(chan error, 1)
	enough := make(chan struct{})
	go func() {
		for {
			select {
			case <-enough:
				ended <- nil
				return
			default:
			}
			err := w.append(t)
			switch {
			case err == nil:
				acknowledged.Add(1)
			case errors.Is(err, db.ErrFull) && !errors.Is(err, db.ErrOutcomeUnknown): // until the WAL is, too
			default:
				ended <- err
				return
			}
		}
	}()
	dbtest.Await(t, "something is written", func() bool { return acknowledged.Load() > 3 })
	disk.End()
	before := acknowledged.Load()
	disk.Empty()
	disk.Again()
	dbtest.Await(t, "it goes on", func() bool { return acknowledged.Load() > before+3 })
	close(enough)
	if err := dbtest.Receive(t, "its end", ended); err != nil {
		t.Fatal(err)
	}
	w.isAllThere(t)
}
