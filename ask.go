package selvedge

import (
	"context"
	"encoding/json"
	"errors"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/runs/live"
)

// A Question is what a person is asked.
type Question struct {
	Prompt string          // in words
	Fields json.RawMessage // what the person fills in, JSON in the program's own form; nil: nothing
}

// An Answer is what a person decided.
type Answer struct {
	// Decision is one of the program's own words: approved. For an effect of unknown outcome it is
	// done (Fields is its result), retry (it did not happen) or give_up.
	Decision string
	By       string          // name of the person
	Fields   json.RawMessage // JSON; nil: none
}

// Ask returns the answer to a question. If there is none, it records the question, releases the run
// and returns ErrWaiting: the run can be taken again once it is answered, and Ask then returns the
// answer. ErrConflict: the key was used with other words.
//
// The release ends the run's context. Wait for the calls of other goroutines first: an effect under way
// becomes one of unknown outcome, and a reply is lost.
func (r *Run) Ask(key string, q Question) (answer Answer, err error) {
	const op = "ask"
	if q.Prompt == "" {
		err = txn.Invalid("say what the person decides", "the question has no words")
	}
	if err == nil {
		err = checkText("question", q.Prompt)
	}
	if err == nil {
		err = checkShown("fields", q.Fields)
	}
	if err != nil {
		return answer, named(op, r.ref, err)
	}
	row, found, err := r.step(op, key, StepQuestion)
	switch {
	case err != nil:
		return answer, err
	case found && (or(row.Prompt) != q.Prompt || !sameJSON(row.Request, q.Fields)):
		return answer, named(op, r.ref,
			txn.Conflict("use a new key for another question", "the key %q has another question", key))
	case found && row.State == string(StepDone):
		return row.answer(), nil
	case found: // another goroutine asked
		return answer, need(op, row.step(r.ref))
	}
	row.State, row.Prompt, row.Request = string(StepWaiting), &q.Prompt, q.Fields
	err = r.leave(op, func(tx *db.Tx) error {
		if err := r.begin(tx, &row); err != nil {
			return err
		}
		return r.wait(tx, &row)
	}, row.asked())
	if err == nil {
		err = need(op, row.step(r.ref))
	}
	return answer, err
}

func (s *stepRow) answer() Answer {
	return Answer{Decision: or(s.Decision), By: or(s.SettledBy), Fields: s.Result}
}

// Answer answers the question of a run, or decides about an effect of unknown outcome, from any
// process. The run is ready then. The same answer again is no error; another is ErrConflict, and so is
// an answer about an effect whose outcome is recorded. It needs no lease, and takes none.
//
// ErrNotFound: there is no such run or step.
func (s *Store) Answer(ctx context.Context, ref Ref, key string, a Answer) error {
	const op = "answer"
	ref = s.ref(ref)
	err := check(ref)
	if err == nil {
		err = checkKey(key)
	}
	if err == nil {
		err = a.check()
	}
	if err == nil {
		err = stores.On(s.db, txn.Runs).Write(ctx, op, func(tx *db.Tx) error { return s.answerTx(tx, ref, key, a) })
	}
	return named(op, ref, err)
}

func (a *Answer) check() error {
	if a.Decision == "" {
		return txn.Invalid("say what was decided: approved, rejected", "the decision is empty")
	}
	err := checkText("decision", a.Decision)
	if err == nil {
		err = checkText("name", a.By)
	}
	if err == nil {
		err = checkShown("fields", a.Fields)
	}
	return err
}

func (s *Store) answerTx(tx *db.Tx, ref Ref, key string, a Answer) error {
	tx.Store().BootTime() // before the statements
	run, err := s.getLocked(tx, ref)
	if err != nil {
		return err
	}
	row, found, err := findStep(&tx.Rx, run.Key, key)
	switch {
	case err != nil:
		return err
	case !found || row.Kind == string(StepReply):
		return &db.Error{
			Op: "answer", Entity: "step", ID: key, Hint: "see what waits: migrate needs", Err: db.ErrNotFound,
		}
	case row.answered():
		if row.answer().same(a) {
			return nil
		}
		return txn.Conflict("the run goes on with the first answer", "%q decided %q", or(row.SettledBy),
			or(row.Decision))
	case row.State != string(StepWaiting) && row.State != string(StepOpen):
		return txn.Conflict("see what waits: migrate needs", "the outcome is recorded: %s", row.State)
	}
	if err := run.ended(); err != nil {
		return err
	}
	if row.State == string(StepOpen) { // a holder of the run may attempt it
		about := db.Error{Op: "answer", Entity: "run", ID: ref.RunID}
		if err := db.FreeTx(tx, s.o.Scope, run.Epoch, about); err != nil {
			return err
		}
	}
	row.Decision, row.SettledBy, row.Result = &a.Decision, optional(a.By), a.Fields
	if err := row.decide(); err != nil {
		return err
	}
	if err := row.put(tx); err != nil {
		return err
	}
	if _, err := s.live.AppendTx(tx, ref.RunID, live.Batch{Events: []live.Event{
		live.EventOf(live.ConfirmationReceived{
			ToolID: key, Approved: a.Decision != "rejected" && a.Decision != string(GiveUp), Reason: &a.Decision,
		}),
	}}); err != nil && !errors.Is(err, db.ErrNotFound) { // the live run was removed; Take makes another one
		return err
	}
	if waits, err := tx.Find(&stepRow{}, sqlWaitingStep, run.Key); err != nil || waits {
		return err
	}
	_, err = tx.Exec(sqlReadyFrom, db.Nanos(tx.Now()), run.Key)
	return err
}

// answered reports whether a person decided already.
func (s *stepRow) answered() bool {
	return s.State != string(StepWaiting) && s.Decision != nil
}

func (a Answer) same(b Answer) bool {
	return a.Decision == b.Decision && a.By == b.By && sameJSON(a.Fields, b.Fields)
}

// decide changes the state as the person decided.
func (s *stepRow) decide() error {
	if s.Kind == string(StepQuestion) {
		s.State = string(StepDone)
		return nil
	}
	switch *s.Decision {
	case decidedDone:
		s.State, s.Epoch = string(StepDone), 0 // no attempt recorded it, nor its turn: see turnMissing
	case decidedRetry:
		s.State, s.Result = string(StepOpen), nil
	case string(GiveUp):
		s.State, s.Result = string(StepGivenUp), nil
	default:
		return txn.Invalid("use done, retry or give_up", "%q is no decision about an effect", *s.Decision)
	}
	return nil
}
