package workers

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"selvedge/db"
)

const (
	// One look for all that an input depends on. worker is NULL where there is none of that id.
	sqlInputState = `
SELECT r.status, r.next_event_id, r.next_event_position, w.key AS worker, w.status AS worker_status, w.transcript_len, w.next_transcript_sequence,
    w.last_event_id
FROM worker_runtimes AS r LEFT JOIN workers AS w ON w.runtime = r.key AND w.worker_id = ?
WHERE r.key = ?`
	sqlTakeInput = `UPDATE workers SET transcript_len = ?, next_transcript_sequence = ?, last_event_id = ?, last_input_at = ? WHERE key = ?`
	sqlAddEntry  = `INSERT INTO worker_entries (id, sequence, role, content, event_id, at) VALUES (?, ?, ?, ?, ?, ?)`
)

// inputState is what a call that changes a worker finds.
type inputState struct {
	Status            string  `db:"status"`
	NextEventID       int64   `db:"next_event_id"`
	NextEventPosition int64   `db:"next_event_position"`
	Worker            *int64  `db:"worker"`
	WorkerStatus      *string `db:"worker_status"`
	TranscriptLen     *int64  `db:"transcript_len"`
	NextSequence      *int64  `db:"next_transcript_sequence"`
	LastEventID       *int64  `db:"last_event_id"`
}

// inputState looks with the runtime's key alone: that the ref names this runtime is checked later, as in the original.
func (r *Runtime) inputState(rx *db.Rx, worker WorkerID) (s inputState, err error) {
	ok, err := rx.Find(&s, sqlInputState, string(worker), r.key)
	if err == nil && !ok {
		err = r.gone("find runtime")
	}
	return s, err
}

func (s *inputState) counters() runtimeState {
	return runtimeState{Status: s.Status, NextEventID: s.NextEventID, NextEventPosition: s.NextEventPosition}
}

// SendInput puts an input behind the worker's transcript, and an event into the log: one transaction, whose cost depends
// neither on the number of workers nor on what they have heard. Refused are, in this order: any input once the runtime is
// stopped, a blank one, a worker of another runtime, one that is not there, and one that does not run.
func (r *Runtime) SendInput(ctx context.Context, worker WorkerRef, input WorkerInput) (ack WorkerInteractionAck, err error) {
	err = r.db.Write(ctx, "send input", func(tx *db.Tx) error {
		ack, err = r.sendInput(tx, worker, input)
		return err
	})
	if err != nil {
		return WorkerInteractionAck{}, refused(err)
	}
	return ack, nil
}

func (r *Runtime) sendInput(tx *db.Tx, worker WorkerRef, input WorkerInput) (ack WorkerInteractionAck, err error) {
	state, err := r.inputState(&tx.Rx, worker.WorkerID)
	if err != nil {
		return ack, err
	}
	if err := r.ensureRunning(state.Status); err != nil {
		return ack, err
	}
	if err := input.check(); err != nil {
		return ack, err
	}
	if err := r.ensureOwn(worker); err != nil {
		return ack, err
	}
	if state.Worker == nil {
		return ack, workerNotFound(worker)
	}
	if !WorkerStatus(*state.WorkerStatus).IsActive() {
		return ack, invalidRequest(fmt.Sprintf("worker %s is not running", worker.WorkerID))
	}
	place, sequence := *state.TranscriptLen+1, *state.NextSequence
	if place > maxEntries {
		return ack, fmt.Errorf("%w: the transcript of worker %s has %d entries, which is all that it can have", db.ErrFull, worker.WorkerID, maxEntries)
	}
	counters := state.counters()
	event, err := r.pushEvent(tx, &counters, state.Worker, EventWorkerInputAccepted, "worker input accepted")
	if err != nil {
		return ack, err
	}
	now := db.Nanos(tx.Now())
	if _, err := tx.Exec(sqlTakeInput, place, sequence+1, int64(event), now, *state.Worker); err != nil {
		return ack, err
	}
	_, err = tx.Exec(sqlAddEntry, *state.Worker<<transcriptPos|place, unless(sequence == place, sequence), string(input.role()),
		[]byte(input.Content), int64(event), now)
	return WorkerInteractionAck{WorkerRef: worker, Status: WorkerRunning, TranscriptSequence: uint64(sequence), EventID: event}, err
}

func (i WorkerInput) check() error {
	switch {
	case strings.TrimSpace(i.Content) == "":
		return invalidRequest("worker input content must not be empty")
	case !utf8.ValidString(i.Content): // the original's types can't say this, nor the next
		return invalidRequest("worker input content is not valid UTF-8")
	case i.Kind != InputUser && i.Kind != InputSystem:
		return invalidRequest(fmt.Sprintf("unknown input kind %q", i.Kind))
	}
	return nil
}

func (i WorkerInput) role() TranscriptRole {
	if i.Kind == InputSystem {
		return RoleSystem
	}
	return RoleUser
}
