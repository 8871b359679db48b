package workers

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/workers"
)

const opInput = "send input"

// SendInputTx is SendInput inside a transaction of the caller's.
func (r *Runtime) SendInputTx(tx *db.Tx, worker WorkerRef, input WorkerInput) (WorkerInteractionAck, error) {
	return r.sendInput(tx, worker, input, 0)
}

// RepeatInput is SendInput again, after one whose outcome was unknown: batch is what [db.BatchOf]
// gives for its error. Where the first try was kept after all, nothing is done, and the answer is
// what that one's would have been. It looks at the whole transcript of the worker.
func (r *Runtime) RepeatInput(ctx context.Context, worker WorkerRef, input WorkerInput,
	batch int64,
) (ack WorkerInteractionAck, err error) {
	err = r.db.WriteLocked(ctx, opInput, func(tx *db.Tx) error {
		ack, err = r.RepeatInputTx(tx, worker, input, batch)
		return err
	})
	return ack, refused(err)
}

// RepeatInputTx is RepeatInput inside a transaction of the caller's.
func (r *Runtime) RepeatInputTx(tx *db.Tx, worker WorkerRef, input WorkerInput,
	batch int64,
) (WorkerInteractionAck, error) {
	return r.sendInput(tx, worker, input, batch)
}

func (r *Runtime) sendInput(tx *db.Tx, worker WorkerRef, input WorkerInput,
	repeat int64,
) (ack WorkerInteractionAck, err error) {
	row, w, err := r.both(tx, opInput, worker)
	if err != nil {
		return ack, err
	}
	if repeat != 0 && w != nil && worker.RuntimeID == r.id {
		kept, found, err := w.FindBatch(&tx.Rx, repeat)
		if err != nil {
			return ack, err
		}
		if found {
			e := kept.Entry(workers.Ref{})
			return WorkerInteractionAck{
				WorkerRef: worker, Status: WorkerStatus(w.Status),
				TranscriptSequence: e.Sequence, EventID: e.EventID,
			}, nil
		}
	}
	if err := r.ensureRunning(row); err != nil {
		return ack, err
	}
	if err := input.check(); err != nil {
		return ack, err
	}
	if err := r.ensureOwn(worker); err != nil {
		return ack, err
	}
	if w == nil {
		return ack, workerNotFound(worker)
	}
	if !WorkerStatus(w.Status).IsActive() {
		return ack, invalidRequest(fmt.Sprintf("worker %s is not running", worker.WorkerID))
	}
	event, err := row.Push(tx, &w.Key, string(EventWorkerInputAccepted), "worker input accepted")
	if err != nil {
		return ack, err
	}
	sequence, err := w.AddEntry(tx, string(input.role()), input.Content, event, tx.Batch())
	if err == nil {
		err = w.Save(tx)
	}
	if err == nil {
		err = row.SaveLog(tx)
	}
	if err != nil {
		return ack, err
	}
	return WorkerInteractionAck{
		WorkerRef: worker, Status: WorkerRunning, TranscriptSequence: sequence,
		EventID: event,
	}, nil
}

func (i WorkerInput) check() error {
	switch {
	case strings.TrimSpace(i.Content) == "":
		return invalidRequest("worker input content must not be empty")
	case !utf8.ValidString(i.Content):
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
