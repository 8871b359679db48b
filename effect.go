package selvedge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/runs/live"
)

// A Policy says what happens with an effect whose outcome is unknown: the process died while it was
// attempted, or the attempt failed with an error that is not [NotDone].
type Policy string

// The policies.
const (
	// Ask, the default: the run waits until a person decides.
	Ask Policy = "ask"
	// Retry: Do attempts the effect again, with the same idempotency key. It is for receivers that
	// recognise the key.
	Retry Policy = "retry"
	// GiveUp: the effect is not attempted again, and Do returns ErrGivenUp.
	GiveUp Policy = "give_up"
)

// An Effect is a change outside the database.
type Effect struct {
	Tool    string          // that performs it
	Args    json.RawMessage // JSON; nil: none
	Unknown Policy          // "" is Ask
}

// NotDone marks an error of the function of Do: the effect certainly did not happen. The next call
// attempts it again.
func NotDone(err error) error { return notDoneError{err} }

type notDoneError struct{ error }

func (e notDoneError) Unwrap() error { return e.error }

const (
	decidedDone  = "done"  // the decision about an effect that happened
	decidedRetry = "retry" // and about one that did not
)

// Do attempts an effect once, and returns its result. A key that is done returns the recorded
// result. The intent is recorded before fn is called, with the idempotency key that each attempt
// passes to fn, and the outcome before Do returns.
//
// If fn fails, the error is NotDone, or the outcome is unknown and Effect.Unknown decides. With Ask
// the run waits, and Do returns ErrUnknown; with Retry it returns the error of fn; with GiveUp, an
// error that is ErrGivenUp. An attempt that a crash interrupted is treated the same way, except
// that Retry calls fn again. ErrConflict: the key was used with another tool or other arguments.
func (r *Run) Do(key string, e Effect,
	fn func(ctx context.Context, idempotencyKey string) (json.RawMessage, error),
) (json.RawMessage, error) {
	return r.do("do", key, e, nil, fn)
}

// DoTurn is Do for an effect that is a whole turn: the turn is recorded with the outcome, which
// becomes its output, in the same transaction.
func (r *Run) DoTurn(key string, e Effect, t Turn,
	fn func(ctx context.Context, idempotencyKey string) (json.RawMessage, error),
) (json.RawMessage, error) {
	if err := t.check(); err != nil {
		return nil, named("do turn", r.ref, err)
	}
	return r.do("do turn", key, e, &t, fn)
}

// Do is Run.Do with a typed result, which is recorded as JSON. db.ErrInvalid: the recorded result does not
// fit T; Run.Do returns it.
func Do[T any](r *Run, key string, e Effect, fn func(ctx context.Context, idempotencyKey string) (T, error),
) (result T, err error) {
	text, err := r.Do(key, e, func(ctx context.Context, idempotencyKey string) (json.RawMessage, error) {
		v, err := fn(ctx, idempotencyKey)
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	})
	if err != nil || text == nil {
		return result, err
	}
	if err := json.Unmarshal(text, &result); err != nil {
		err = txn.Invalid("read it with Run.Do: a person may have given it", "the result of %q: %w", key, err)
		return result, named("do", r.ref, err)
	}
	return result, nil
}

func (e *Effect) check() error {
	switch {
	case e.Tool == "":
		return txn.Invalid("say what performs it: http, git", "the effect has no tool")
	case e.Unknown != Ask && e.Unknown != Retry && e.Unknown != GiveUp:
		return txn.Invalid("use Ask, Retry or GiveUp", "%q is no policy", e.Unknown)
	}
	err := checkText("tool", e.Tool)
	if err == nil {
		err = checkJSON("arguments", e.Args)
	}
	return err
}

// same returns db.ErrConflict if the step is another effect.
func (e *Effect) same(row *stepRow) error {
	if row.Tool == nil || *row.Tool != e.Tool || !sameJSON(row.Request, e.Args) {
		return txn.Conflict("use a new key for another effect", "the key %q has another tool or other arguments",
			row.Key)
	}
	return nil
}

func (r *Run) do(op, key string, e Effect, t *Turn,
	fn func(ctx context.Context, idempotencyKey string) (json.RawMessage, error),
) (json.RawMessage, error) {
	if e.Unknown == "" {
		e.Unknown = Ask
	}
	if err := e.check(); err != nil {
		return nil, named(op, r.ref, err)
	}
	alone, fresh := r.enter(key) // before the step is read: what is read must hold until the attempt
	if alone {
		defer r.exit(key)
	}
	row, done, err := r.attempt(op, key, e, alone, fresh)
	if err != nil {
		return nil, err
	}
	if done {
		if t != nil && alone && r.turnMissing(&row) {
			t.Output, row.Epoch = row.Result, r.trace.Epoch()
			err = r.record(r.ctx, op, &row, t)
		}
		return row.Result, err
	}
	returned := false
	defer func() {
		if !returned { // fn panicked or called Goexit
			_ = r.fail(op, &row, errors.New("the function did not return"))
		}
	}()
	result, err := fn(r.ctx, row.idempotencyKey(r.ref))
	returned = true
	switch {
	case err != nil:
	case t == nil:
		err = checkJSON("bytes of the result", result)
	default:
		t.Output = result
		err = checkShown("bytes of the result", result)
	}
	if err != nil {
		return nil, r.fail(op, &row, err)
	}
	ctx, cancel := r.settle()
	defer cancel()
	row.State, row.Result = string(StepDone), result
	ended := live.EventOf(live.ToolEnd{ID: key, Name: e.Tool, Output: string(result)})
	if err := r.record(ctx, op, &row, t, ended); err != nil {
		return nil, err
	}
	return result, nil
}

// turnMissing reports whether a person said that an effect was done, and its turn is not recorded. If an
// older program recorded the answer, the number of turns shows it.
func (r *Run) turnMissing(row *stepRow) bool {
	return or(row.Decision) == decidedDone && row.Epoch == 0 || int64(r.TurnNumber()) == row.Turn
}

// attempt records the intent of an attempt at an effect, unless the effect is done: row has its result then.
func (r *Run) attempt(op, key string, e Effect, alone, fresh bool) (row stepRow, done bool, err error) {
	if alone && fresh && checkKey(key) == nil {
		// The transaction of the intent looks too. The writer has the page that a reader would read again.
		row, err = r.intend(op, r.newStep(key, StepEffect), false, e)
		if !errors.Is(err, errRecorded) {
			return row, false, err
		}
	}
	row, found, err := r.step(op, key, StepEffect)
	if err == nil && found {
		err = named(op, r.ref, e.same(&row))
	}
	if err != nil {
		return row, false, err
	}
	r.looked(found)
	switch {
	case found && row.State == string(StepDone):
		return row, true, nil
	case !alone:
		err = txn.Conflict("wait for it", "the effect %q is under way in this process", key)
		return row, false, named(op, r.ref, err)
	}
	row, err = r.intend(op, row, found, e)
	return row, false, err
}

// enter reports whether no other goroutine attempts the effect, and whether it is likely to be new.
func (r *Run) enter(key string) (alone, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[key] {
		return false, false
	}
	r.busy[key] = true
	return true, r.fresh
}

// looked notes whether a run that was taken up is still at what it did before.
func (r *Run) looked(found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = !found
}

func (r *Run) exit(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, key)
}

// intend records the intent of an attempt, or what becomes of an effect of unknown outcome.
func (r *Run) intend(op string, row stepRow, found bool, e Effect) (stepRow, error) {
	policy := string(e.Unknown)
	row.Policy = &policy
	switch {
	case !found:
		if err := checkShown("arguments", e.Args); err != nil {
			return row, named(op, r.ref, err)
		}
		row.State, row.Tool, row.Request = string(StepOpen), &e.Tool, e.Args
	case row.State == string(StepGivenUp):
		return row, r.givenUp(op, &row)
	case or(row.Decision) == decidedRetry || e.Unknown == Retry:
		row.Attempt++
		row.Decision, row.SettledBy, row.Error = nil, nil, nil
	default:
		return row, r.unknown(op, &row)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.write(r.ctx, op, func(tx *db.Tx) error {
		row.Epoch = r.trace.Epoch()
		if !found {
			if err := r.begin(tx, &row); err != nil {
				return err
			}
		}
		return row.put(tx)
	}, live.ToolStart(row.Key, e.Tool))
	return row, err
}

// unknown records what becomes of an effect of unknown outcome, unless it is tried again.
func (r *Run) unknown(op string, row *stepRow) error {
	if *row.Policy == string(GiveUp) {
		row.State = string(StepGivenUp)
		ctx, cancel := r.settle()
		defer cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.write(ctx, op, row.put); err != nil {
			return err
		}
		return r.givenUp(op, row)
	}
	row.State = string(StepWaiting)
	err := r.leave(op, func(tx *db.Tx) error { return r.wait(tx, row) }, row.asked())
	if err == nil {
		err = need(op, row.step(r.ref))
	}
	return err
}

// wait records a step that waits for a person, and releases the run.
func (r *Run) wait(tx *db.Tx, row *stepRow) error {
	err := row.put(tx)
	if err == nil {
		err = r.release(tx, nil)
	}
	return err
}

// asked returns the event that asks a person.
func (s *stepRow) asked() live.Event {
	args := json.RawMessage(s.Request)
	if args == nil {
		args = json.RawMessage("null")
	}
	tool := or(s.Tool)
	if s.Kind == string(StepQuestion) {
		tool = "question"
		args, _ = json.Marshal(map[string]any{"prompt": s.Prompt, "fields": args})
	}
	return live.EventOf(live.ConfirmationRequired{ToolID: s.Key, ToolName: tool, Args: args})
}

func (r *Run) givenUp(op string, row *stepRow) error {
	err := ErrGivenUp
	if row.Error != nil {
		err = fmt.Errorf("%w: %s", err, *row.Error)
	}
	return &db.Error{
		Op: op, Entity: "run", ID: r.ref.RunID, Err: fmt.Errorf("effect %q: %w", row.Key, err),
		Hint: "go on without it: errors.Is(err, selvedge.ErrGivenUp)",
	}
}

// fail records that an attempt failed, and returns the error of Do.
func (r *Run) fail(op string, row *stepRow, cause error) error {
	row.Error = optional(strings.ToValidUTF8(strings.ReplaceAll(cause.Error(), "\x00", ""), "\ufffd"))
	switch _, certainly := errors.AsType[notDoneError](cause); {
	case certainly:
		decision := decidedRetry
		row.Decision = &decision
	case *row.Policy != string(Retry):
		return errors.Join(r.unknown(op, row), cause)
	}
	ctx, cancel := r.settle()
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	end := live.ToolEnd{ID: row.Key, Name: *row.Tool, Output: *row.Error, ExitCode: 1}
	return errors.Join(cause, r.write(ctx, op, row.put, live.EventOf(end)))
}
