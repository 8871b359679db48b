package selvedge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
	"selvedge/runs"
	"selvedge/runs/live"
)

// A Run is a run that this process holds. The lease is renewed in the background until the run is
// ended or left, or waits. Its methods are safe for concurrent use. Once the run's context has ended,
// they return its cause and change nothing: db.ErrLeaseLost, or context.Canceled. End and Leave still
// release a run whose lease holds, and an outcome that came meanwhile is recorded.
//
// db.ErrOutcomeUnknown: a disk failed, or a server was away for longer than a minute, and the call can't
// find out whether it was committed. A file must be opened again then, and on a server the lease is lost
// by then. Take continues the run after what was committed.
type Run struct {
	store   *Store
	ref     Ref
	key     int64 // of its row
	trace   *runs.Run
	watched *live.Run
	ctx     context.Context
	stop    context.CancelFunc

	mu    sync.Mutex // of what follows, and of every write
	turns int
	words strings.Builder // said, and not written yet
	timer *time.Timer     // writes the words; nil: there are none
	said  error           // of the timer's write
	busy  map[string]bool // keys of the effects under way
	fresh bool            // the last effect that was looked up was not recorded
}

const (
	wordsBytes = 4 << 10 // words are written once they are so many bytes
	wordsPause = 50 * time.Millisecond
	// leavePause is the time until Next finds a run that was left.
	leavePause = time.Second
	// settleTime bounds a write that must be made though the caller's context ended.
	settleTime = 30 * time.Second
)

func (r *Run) start(ctx context.Context) {
	r.ctx, r.stop = r.trace.Keep(ctx)
	r.busy = map[string]bool{}
}

// Ref returns the name of the run.
func (r *Run) Ref() Ref { return r.ref }

// Context ends when the context of Take does, when the run is ended, left or waits, and when the
// lease is lost: its cause is then a db.ErrLeaseLost.
func (r *Run) Context() context.Context { return r.ctx }

// TurnNumber returns the number of the turn to come, from 0.
func (r *Run) TurnNumber() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns
}

// write records events, and runs fn, in a transaction in which the run is held; a nil fn does nothing. It
// first writes the words that were said. The caller has r.mu.
func (r *Run) write(ctx context.Context, op string, fn func(tx *db.Tx) error, events ...live.Event) error {
	words := r.words.String()
	if words != "" {
		delta := live.TextDelta(words).In(uint64(r.turns), uint64(r.trace.Epoch()))
		events = append([]live.Event{delta}, events...)
	}
	err := stores.On(r.store.db, txn.Runs).Write(ctx, op, func(tx *db.Tx) error {
		if err := r.trace.HoldTx(tx); err != nil {
			return err
		}
		tx.Store().SetHeld(r.trace.Lease().Handle)
		if len(events) > 0 {
			if _, err := r.watched.AppendTx(tx, events...); err != nil {
				return err
			}
		}
		if fn == nil {
			return nil
		}
		return fn(tx)
	})
	if err == nil {
		r.words.Reset()
		r.said = nil
		if r.timer != nil {
			r.timer.Stop()
			r.timer = nil
		}
	}
	return named(op, r.ref, err)
}

// settle returns a context for a write that records what has happened already.
func (r *Run) settle() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.ctx), settleTime)
}

// Say passes on words of the model to the run's followers. It buffers them: they are written after
// 50 ms, at 4 KiB, and with the next change of the run. They carry the turn and the attempt. With
// an error, which may be that of the last write, the text was not buffered.
func (r *Run) Say(text string) error {
	const op = "say"
	if err := checkText("words", text); err != nil {
		return named(op, r.ref, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return named(op, r.ref, context.Cause(r.ctx))
	}
	if err := r.said; err != nil {
		r.said = nil
		return err
	}
	before := r.words.String()
	r.words.WriteString(text)
	if r.words.Len() >= wordsBytes {
		defer func() {
			if r.words.Len() > 0 { // they were not written: the text was not said
				r.words.Reset()
				r.words.WriteString(before)
			}
		}()
		return r.write(r.ctx, op, nil)
	}
	if r.timer == nil && text != "" {
		r.timer = time.AfterFunc(wordsPause, r.flush)
	}
	return nil
}

func (r *Run) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil {
		return // they were written
	}
	r.timer = nil
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *db.Panic: // of a function in Options
			r.said = named("say", r.ref, v)
		default:
			panic(v)
		}
	}()
	if err := r.write(r.ctx, "say", nil); err != nil && r.ctx.Err() == nil {
		r.said = err
	}
}

// A Reply is an answer of a model.
type Reply struct {
	Text string          `json:"text,omitempty"`
	Tool string          `json:"tool,omitempty"` // that the model calls
	Args json.RawMessage `json:"args,omitempty"` // of the call, JSON
	// Raw is what else the program needs of the answer, such as the provider's own response; JSON.
	Raw   json.RawMessage `json:"raw,omitempty"`
	Usage Usage           `json:"usage"`
}

// Reply returns the recorded answer of the key, or calls fn and records its answer and its usage.
// So a run that is taken up again continues with the same answers, and the usage of each is
// recorded. If fn fails, nothing is recorded. A run that used its [Budget] waits: the error is
// ErrWaiting.
func (r *Run) Reply(key string, fn func(ctx context.Context) (Reply, error)) (reply Reply, err error) {
	const op = "reply"
	row, found, err := r.step(op, key, StepReply)
	if err != nil {
		return reply, err
	}
	if found {
		return row.reply()
	}
	if err := r.afford(); err != nil {
		return reply, err
	}
	if reply, err = fn(r.ctx); err != nil {
		return Reply{}, err
	}
	if row.Result, err = json.Marshal(reply); err != nil {
		err = txn.Invalid("give JSON in Args and Raw, and a finite cost", "the reply can't be recorded: %w", err)
	}
	row.Result = bytes.ToValidUTF8(row.Result, []byte("\ufffd"))
	if err == nil {
		err = checkJSON("members of the reply", row.Result)
	}
	if err == nil {
		reply, err = row.reply() // as every attempt gets it
	}
	if err != nil {
		return Reply{}, named(op, r.ref, err)
	}
	ctx, cancel := r.settle()
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	row.State = string(StepDone)
	err = r.write(ctx, op, func(tx *db.Tx) error {
		err := r.begin(tx, &row)
		if err == nil {
			err = row.put(tx)
		}
		if err == nil {
			err = r.count(tx, key, reply.Usage)
		}
		return err
	})
	if err != nil {
		return Reply{}, err
	}
	return reply, nil
}

// count writes what a reply counts.
func (r *Run) count(tx *db.Tx, key string, u Usage) error {
	counts := usage.CountsOf(u)
	if counts.Numbers == (usage.Numbers{}) {
		return nil
	}
	scope, err := tx.Store().Scope(r.store.o.Scope)
	if err != nil {
		return err
	}
	return usage.Put(tx, usage.Record{
		Scope: scope, RunID: r.ref.RunID, AgentID: r.ref.AgentID, Run: r.key, Account: usage.Reply, StepKey: key,
		RecordedAt: db.Nanos(tx.Now()),
	}, counts)
}

// reply returns the recorded reply.
func (s *stepRow) reply() (reply Reply, err error) {
	if err = json.Unmarshal(s.Result, &reply); err != nil {
		err = fmt.Errorf("%w: reply %q: %w", db.ErrCorrupt, s.Key, err)
	}
	return reply, err
}

// step returns the recorded step of a key, or a new one. A step of another kind is ErrConflict.
func (r *Run) step(op, key string, kind StepKind) (row stepRow, found bool, err error) {
	if err := checkKey(key); err != nil {
		return row, false, named(op, r.ref, err)
	}
	err = r.store.db.ReadSingle(r.ctx, op, func(rx *db.Rx) error {
		row, found, err = findStep(rx, r.key, key)
		return err
	})
	if err == nil && found && row.Kind != string(kind) {
		err = txn.Conflict("use another key", "the key %q names a step of the kind %s", key, row.Kind)
	}
	if err != nil {
		return row, false, named(op, r.ref, err)
	}
	if !found {
		row = r.newStep(key, kind)
	}
	return row, found, nil
}

func (r *Run) newStep(key string, kind StepKind) stepRow {
	return stepRow{Run: r.key, Key: key, Kind: string(kind), Attempt: 1}
}

var errRecorded = errors.New("a step was recorded meanwhile")

// begin completes a new step, which its caller writes.
func (r *Run) begin(tx *db.Tx, row *stepRow) error {
	if _, found, err := findStep(&tx.Rx, r.key, row.Key); err != nil {
		return err
	} else if found {
		return txn.Conflict("use another key, or call once at a time", "%w: key %q", errRecorded, row.Key)
	}
	row.Epoch, row.Turn = r.trace.Epoch(), int64(r.turns)
	return nil
}

// A Turn is one turn of a run, for its trace.
type Turn struct {
	Prompt string          // what was asked; "": not recorded
	Reply  Reply           // its Tool and Args become those of the turn, its Usage that of the turn_end event
	Output json.RawMessage // what came of the tool, JSON
}

func (t *Turn) check() error {
	err := checkShown("arguments", t.Reply.Args)
	if err == nil {
		err = checkShown("bytes of the output", t.Output)
	}
	if err == nil {
		err = checkText("prompt", t.Prompt)
	}
	if err == nil {
		err = checkText("tool", t.Reply.Tool)
	}
	if err == nil && t.Reply.Usage != (Usage{}) {
		if _, bad := live.TurnEnd(0, t.Reply.Usage).MarshalJSON(); bad != nil {
			err = txn.Invalid("give a finite cost, and names in UTF-8", "the usage can't be recorded: %w", bad)
		}
	}
	return err
}

// Turn records a turn.
func (r *Run) Turn(t Turn) error {
	const op = "record turn"
	if err := t.check(); err != nil {
		return named(op, r.ref, err)
	}
	return r.record(r.ctx, op, nil, &t)
}

// record records a step, a turn, or both, and events.
func (r *Run) record(ctx context.Context, op string, row *stepRow, t *Turn, events ...live.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t != nil {
		events = append(events, r.turnEnd(t))
	}
	err := r.write(ctx, op, func(tx *db.Tx) (err error) {
		if row != nil {
			err = row.put(tx)
		}
		if err == nil && t != nil {
			err = r.turn(tx, t)
		}
		return err
	}, events...)
	if err == nil && t != nil {
		r.turns++
	}
	return err
}

func (r *Run) turn(tx *db.Tx, t *Turn) error {
	return r.trace.AppendTx(tx, runs.Turn{
		Index: uint64(r.turns), Prompt: optional(t.Prompt), Tool: optional(t.Reply.Tool),
		Parameters: t.Reply.Args, Output: t.Output,
	})
}

// turnEnd returns the event of a turn.
func (r *Run) turnEnd(t *Turn) live.Event { return live.TurnEnd(uint64(r.turns), t.Reply.Usage) }

// An Outcome is how a run ends.
type Outcome struct {
	Status  runs.OutcomeStatus
	Summary string // in words
}

// Succeeded is the outcome of a run that achieved its intent.
func Succeeded(summary string) Outcome { return Outcome{runs.OutcomeSuccess, summary} }

// GaveUp is the outcome of a run that stopped on purpose.
func GaveUp(summary string) Outcome { return Outcome{runs.OutcomeGiveUp, summary} }

// FailedWith is the outcome of a run that failed.
func FailedWith(summary string) Outcome { return Outcome{runs.OutcomeFailure, summary} }

// End ends the run and releases it.
func (r *Run) End(o Outcome) error {
	const op = "end run"
	if err := checkText("summary", o.Summary); err != nil {
		return named(op, r.ref, err)
	}
	last := live.AgentEnd(o.Summary)
	if o.Status == runs.OutcomeFailure || o.Status == runs.OutcomeTimeout {
		last = live.ErrorEvent(o.Summary)
	}
	return r.leave(op, func(tx *db.Tx) error {
		if err := r.watched.ReleaseTx(tx); err != nil {
			return err
		}
		outcome := &runs.AgentOutcome{Status: o.Status, Summary: o.Summary}
		return r.trace.EndTx(tx, runs.Termination{Outcome: outcome})
	}, last)
}

const sqlReadyFrom = `UPDATE runs SET ready_at = ? WHERE key = ?`

// Leave releases the run as it is. Next finds it again after a second. Leaving a run that was ended,
// left or lost, or that waits, does nothing.
func (r *Run) Leave() error {
	err := r.leave("leave run", func(tx *db.Tx) error {
		return r.release(tx, db.Nanos(tx.Now().Add(leavePause)))
	})
	if errors.Is(err, db.ErrLeaseLost) {
		return nil
	}
	return err
}

// release gives the lease back in a transaction. A nil readyAt is a run that waits.
func (r *Run) release(tx *db.Tx, readyAt any) error {
	err := r.watched.ReleaseTx(tx)
	if err == nil {
		err = r.trace.ReleaseTx(tx)
	}
	if err == nil {
		_, err = tx.Exec(sqlReadyFrom, readyAt, r.key)
	}
	return err
}

// leave records events and runs fn, which releases the run, and ends the run's context.
func (r *Run) leave(op string, fn func(tx *db.Tx) error, events ...live.Event) error {
	ctx, cancel := r.settle()
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.write(ctx, op, fn, events...)
	if err == nil {
		r.stop()
	}
	return err
}

// Child takes a run of an agent that this run starts, as Take does.
func (r *Run) Child(agent, id string, start Start) (*Run, error) {
	start.Parent = r.ref
	if id == r.ref.RunID {
		return nil, named("take run", r.ref, txn.Invalid("use another id", "a run is not its own child"))
	}
	child := r.store.For(agent) // Take would complete a parent without an agent by the child's
	return child.take(r.ctx, id, start, child.add)
}
