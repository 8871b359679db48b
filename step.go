package selvedge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"selvedge/db"
	"selvedge/internal/serdejson"
	"selvedge/internal/txn"
)

// A StepKind is the kind of a step.
type StepKind string

// The kinds.
const (
	StepReply    StepKind = "reply"    // an answer of a model
	StepEffect   StepKind = "effect"   // a change outside the database
	StepQuestion StepKind = "question" // to a person
)

// A StepState is the state of a step.
type StepState string

// The states. A reply is always done.
const (
	StepOpen StepState = "open" // an effect that is under way, or was interrupted
	// a question without an answer, or an effect of unknown outcome: a person decides
	StepWaiting StepState = "waiting"
	StepDone    StepState = "done"     // its result is recorded
	StepGivenUp StepState = "given_up" // an effect that may have happened and is not attempted again
)

// A Step is a recorded step of a run. Lists show it; the calls of a [Run] make it.
type Step struct {
	AgentID string          `json:"agent_id"` // of the run
	RunID   string          `json:"run_id"`   // the run
	Key     string          `json:"key"`      // name of the step within its run
	Kind    StepKind        `json:"kind"`     // reply, effect or question
	State   StepState       `json:"state"`    // open, waiting, done or given_up
	Tool    string          `json:"tool"`     // of an effect; empty for others
	Unknown Policy          `json:"policy"`   // of an effect: ask, retry or give_up; empty for others
	Prompt  string          `json:"prompt"`   // of a question; empty for others
	Request json.RawMessage `json:"request"`  // the arguments of an effect, the fields of a question; null: none
	// the reply, the result of the effect, the fields of the answer; null: none, or not yet
	Result    json.RawMessage `json:"result"`
	Attempt   int             `json:"attempt"`    // number of the last attempt at an effect, from 1
	Turn      int             `json:"turn"`       // turns that the run had when the step began
	Decision  string          `json:"decision"`   // of the person; empty: nobody decided
	SettledBy string          `json:"settled_by"` // name of the person; empty: not said
	Error     string          `json:"error"`      // of the last attempt at an effect; empty: none
	CreatedAt time.Time       `json:"created_at"` // RFC 3339, UTC
	ChangedAt time.Time       `json:"changed_at"` // RFC 3339, UTC
	// the key that every attempt at the effect sends; empty for others
	IdempotencyKey string `json:"idempotency_key"`
}

// Ref names the run.
func (s *Step) Ref() Ref { return Ref{AgentID: s.AgentID, RunID: s.RunID} }

// A NeedError reports that a run waits for a person. It is an ErrWaiting for a question, and an
// ErrUnknown for an effect.
type NeedError struct{ Step Step }

// Error says what is asked.
func (e *NeedError) Error() string {
	if e.Step.Kind == StepQuestion {
		return fmt.Sprintf("%v: question %q: %q", ErrWaiting, e.Step.Key, e.Step.Prompt)
	}
	return fmt.Sprintf("%v: effect %q of tool %q", ErrUnknown, e.Step.Key, e.Step.Tool)
}

// Unwrap returns ErrWaiting or ErrUnknown.
func (e *NeedError) Unwrap() error {
	if e.Step.Kind == StepQuestion {
		return ErrWaiting
	}
	return ErrUnknown
}

// need returns the error of a run that waits for a step.
func need(op string, s Step) error {
	return &db.Error{
		Op: op, Entity: "run", ID: s.RunID, Err: &NeedError{s},
		Hint: "answer it: Store.Answer, or migrate answer",
	}
}

// stepRow is a row of run_steps. The order of its fields is that of the columns.
type stepRow struct {
	Run       int64   `db:"run"`
	Key       string  `db:"step_key"`
	Kind      string  `db:"kind"`
	State     string  `db:"state"`
	Tool      *string `db:"tool"`
	Policy    *string `db:"policy"`
	Prompt    *string `db:"prompt"`
	Request   []byte  `db:"request"`
	Attempt   int64   `db:"attempt"`
	Epoch     int64   `db:"epoch"`
	Turn      int64   `db:"turn"`
	Result    []byte  `db:"result"`
	Decision  *string `db:"decision"`
	SettledBy *string `db:"settled_by"`
	Error     *string `db:"error"`
	CreatedAt int64   `db:"created_at"`
	ChangedAt int64   `db:"changed_at"`
}

const (
	stepColumns = `run, step_key, kind, state, tool, policy, prompt, request, attempt, epoch, turn, result,
	decision, settled_by, error, created_at, changed_at`
	sqlFindStep = `SELECT ` + stepColumns + ` FROM run_steps WHERE run = ? AND step_key = ?`
	sqlPutStep  = `INSERT INTO run_steps (` + stepColumns + `, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step_key) DO UPDATE SET state = excluded.state, policy = excluded.policy,
	attempt = excluded.attempt, epoch = excluded.epoch, result = excluded.result,
	decision = excluded.decision, settled_by = excluded.settled_by, error = excluded.error,
	changed_at = excluded.changed_at, checksum = excluded.checksum`
	sqlWaitingStep = `SELECT ` + stepColumns + ` FROM run_steps WHERE run = ?1 AND step_key = (
	SELECT w.step_key FROM run_steps AS w WHERE w.run = ?1 AND w.state = 'waiting' LIMIT 1)`
)

func findStep(rx *db.Rx, run int64, key string) (row stepRow, found bool, err error) {
	found, err = rx.Find(&row, sqlFindStep, run, key)
	return row, found, err
}

// put writes the row at the time of the transaction.
func (s *stepRow) put(tx *db.Tx) error {
	s.ChangedAt = db.Nanos(tx.Now())
	if s.CreatedAt == 0 {
		s.CreatedAt = s.ChangedAt
	}
	columns := []any{
		s.Key, s.Kind, s.State, s.Tool, s.Policy, s.Prompt, txn.Blob(s.Request), s.Attempt, s.Epoch, s.Turn,
		txn.Blob(s.Result), s.Decision, s.SettledBy, s.Error, s.CreatedAt, s.ChangedAt,
	}
	_, err := tx.Exec(sqlPutStep, append(append([]any{s.Run}, columns...), txn.Checksum(columns...))...)
	return err
}

// step returns the row as the caller sees it.
func (s *stepRow) step(ref Ref) Step {
	out := Step{
		AgentID: ref.AgentID, RunID: ref.RunID, Key: s.Key, Kind: StepKind(s.Kind),
		State: StepState(s.State), Tool: or(s.Tool), Unknown: Policy(or(s.Policy)),
		Prompt: or(s.Prompt), Request: s.Request, Result: s.Result, Attempt: int(s.Attempt), Turn: int(s.Turn),
		Decision: or(s.Decision), SettledBy: or(s.SettledBy), Error: or(s.Error),
		CreatedAt: db.Time(s.CreatedAt), ChangedAt: db.Time(s.ChangedAt),
	}
	if out.Kind == StepEffect {
		out.IdempotencyKey = s.idempotencyKey(ref)
	}
	return out
}

// idempotencyKey returns a UUID: it fits into the header of a request, whatever the ids are. The
// time tells runs of one name apart.
func (s *stepRow) idempotencyKey(ref Ref) string {
	name, _ := json.Marshal([]any{ref.AgentID, ref.RunID, s.Key, s.CreatedAt})
	return uuid.NewSHA1(uuid.NameSpaceOID, name).String()
}

func or(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// optional returns nil for no text.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// maxJSON is the largest JSON text that a step holds, in bytes.
const maxJSON = 256 << 20

// checkKey returns db.ErrInvalid for a key that no step can have.
func checkKey(key string) error {
	if key == "" {
		return txn.Invalid("name the call, uniquely within its run: plan, push-3", "the key is empty")
	}
	return txn.CheckID("step", key)
}

// checkJSON returns db.ErrInvalid for a text that is not JSON; nil is none.
func checkJSON(what string, text json.RawMessage) error {
	switch {
	case text == nil:
		return nil
	case len(text) > maxJSON:
		return txn.Invalid("store it elsewhere, and record where", "the %s are %d bytes; at most %d are possible",
			what, len(text), maxJSON)
	case !utf8.Valid(text) || !json.Valid(text):
		return txn.Invalid("encode them with json.Marshal", "the %s are not JSON", what)
	}
	return nil
}

// shownLevels is how many arrays and objects enclose the fields of a question in a file of live runs.
const shownLevels = 6

// checkShown is checkJSON for a text that a trace or an event shows too.
func checkShown(what string, text json.RawMessage) error {
	if text == nil || len(text) <= maxJSON && utf8.Valid(text) && serdejson.Check(text, shownLevels) == "" {
		return nil
	}
	if err := checkJSON(what, text); err != nil {
		return err
	}
	return txn.Invalid("make them fit a float64, 121 levels and whole surrogate pairs",
		"the %s can't be recorded: %s", what, serdejson.Check(text, shownLevels))
}

// checkText returns db.ErrInvalid for a text that the database can't hold.
func checkText(what, text string) error {
	if len(text) > maxJSON || !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return txn.Invalid("make it valid UTF-8 of at most 256 MiB, without NUL", "the %s can't be stored", what)
	}
	return nil
}

// sameJSON reports whether two texts hold the same value, whatever their blanks and the order of
// their members.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := decode(a)
	y, errY := decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func decode(text []byte) (v any, err error) {
	if text == nil {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
