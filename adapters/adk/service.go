package adk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/state"
)

// New returns the sessions of a database. It reads and writes nothing.
func New(d *db.DB) session.Service { return &service{d} }

type service struct{ db *db.DB }

// The kinds of the records that are events: one that reports what a model used is a turn of that
// model, and v_usage counts it.
const (
	eventKind = "adk_event"
	modelKind = "model_turn"
)

// A record is a record of a run that is an event.
type record struct {
	Kind  string                                      `json:"record"`
	Model string                                      `json:"response_model,omitempty"`
	Usage *genai.GenerateContentResponseUsageMetadata `json:"usageMetadata,omitempty"`
	Event *session.Event                              `json:"event"`
}

// A head is what a session has besides its events.
type head struct {
	UpdatedAt time.Time      `json:"updated_at"`
	State     map[string]any `json:"state"`
}

// An app is the stores of an app.
type app struct {
	runs  *runs.Store
	state *state.Store
}

func (s *service) app(name string) app {
	scope := "adk:" + name
	return app{
		runs.NewStore(s.db, runs.Options{Scope: scope}), state.NewStore(s.db, state.Options{Scope: scope}),
	}
}

const ofApp = "app" // owner of the state of an app

func ofUser(user string) string { return "user:" + user }

func headOf(user, id string) state.Ref { return state.Ref{Owner: "session:" + user, Key: id} }

func (s *service) Create(ctx context.Context, req *session.CreateRequest) (*session.CreateResponse, error) {
	if err := required("app name", req.AppName, "user id", req.UserID); err != nil {
		return nil, err
	}
	id := req.SessionID
	if id == "" {
		id = platform.NewUUID(ctx)
	}
	a, now := s.app(req.AppName), platform.Now(ctx)
	var created *stored
	err := s.db.Write(ctx, "create session", func(tx *db.Tx) (err error) {
		run := runs.RunRef{AgentID: req.UserID, RunID: id}
		if _, err = a.runs.GetTx(&tx.Rx, run); !errors.Is(err, db.ErrNotFound) {
			return errors.Join(err, fmt.Errorf("%w: session %q already exists", db.ErrConflict, id))
		}
		started := runs.Started{AgentID: req.UserID, RunID: id, Intent: "ADK session", StartedAt: now}
		batch := runs.Batch{AgentID: req.UserID, RunID: id, Records: []runs.Record{started}}
		if _, err = a.runs.AppendTx(tx, batch); err != nil {
			return err
		}
		if err = a.put(tx, req.UserID, id, head{now, nil}, req.State); err == nil {
			created, err = a.get(&tx.Rx, req.AppName, run)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &session.CreateResponse{Session: created}, nil
}

func (s *service) Get(ctx context.Context, req *session.GetRequest) (*session.GetResponse, error) {
	err := required("app name", req.AppName, "user id", req.UserID, "session id", req.SessionID)
	if err != nil {
		return nil, err
	}
	a, run := s.app(req.AppName), runs.RunRef{AgentID: req.UserID, RunID: req.SessionID}
	var got *stored
	err = s.db.Read(ctx, "get session", func(rx *db.Rx) (err error) {
		if got, err = a.get(rx, req.AppName, run); err == nil {
			got.events, err = a.events(rx, run, req.NumRecentEvents, req.After)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &session.GetResponse{Session: got}, nil
}

func (s *service) List(ctx context.Context, req *session.ListRequest) (*session.ListResponse, error) {
	if err := required("app name", req.AppName); err != nil {
		return nil, err
	}
	var f runs.Filter
	if req.UserID != "" {
		f.Agent = &req.UserID
	}
	a := s.app(req.AppName)
	var list []session.Session
	err := s.db.Read(ctx, "list sessions", func(rx *db.Rx) error {
		list = []session.Session{}
		for at := (db.At{Limit: db.MaxLimit}); ; {
			page, err := a.runs.PageTx(rx, f, at)
			if err != nil {
				return err
			}
			for _, run := range page.Items {
				one, err := a.get(rx, req.AppName, run.Ref)
				if err != nil {
					return err
				}
				list = append(list, one)
			}
			if at.After = page.Next; at.After == "" {
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return &session.ListResponse{Sessions: list}, nil
}

func (s *service) Delete(ctx context.Context, req *session.DeleteRequest) error {
	err := required("app name", req.AppName, "user id", req.UserID, "session id", req.SessionID)
	if err != nil {
		return err
	}
	a, run := s.app(req.AppName), runs.RunRef{AgentID: req.UserID, RunID: req.SessionID}
	return s.db.Reclaim(ctx, "delete session", func(tx *db.Tx) error {
		_, err := a.runs.GetTx(&tx.Rx, run)
		if errors.Is(err, db.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		// An open run stays as long as the process lives that appended to it.
		end := runs.Batch{
			AgentID: req.UserID, RunID: req.SessionID,
			Records: []runs.Record{runs.Cancelled(run, "deleted", tx.Now())},
		}
		if _, err = a.runs.AppendTx(tx, end); err == nil {
			err = a.runs.DeleteTx(tx, run)
		}
		if err == nil {
			err = a.state.DeleteTx(tx, headOf(req.UserID, req.SessionID))
		}
		if errors.Is(err, db.ErrNotFound) { // as in head
			err = nil
		}
		return err
	})
}

func (s *service) AppendEvent(ctx context.Context, to session.Session, event *session.Event) error {
	switch {
	case to == nil:
		return fmt.Errorf("%w: the session is nil", db.ErrInvalid)
	case event == nil:
		return fmt.Errorf("%w: the event is nil", db.ErrInvalid)
	case event.Partial:
		return nil
	}
	kept := *event
	kept.Actions.StateDelta = withoutTemporary(event.Actions.StateDelta)
	r := record{eventKind, event.ModelVersion, event.UsageMetadata, &kept}
	if r.Usage != nil {
		r.Kind = modelKind
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%w: event %q: %w", db.ErrInvalid, event.ID, err)
	}
	a, user, id := s.app(to.AppName()), to.UserID(), to.ID()
	batch := runs.Batch{
		AgentID: user, RunID: id, Key: event.ID, Records: []runs.Record{runs.Unknown{Kind: r.Kind, Raw: text}},
	}
	repeated := false
	err = s.db.Write(ctx, "append event", func(tx *db.Tx) error {
		run, err := a.runs.GetTx(&tx.Rx, runs.RunRef{AgentID: user, RunID: id})
		if err != nil {
			return err
		}
		repeated, err = a.runs.AppendTx(tx, batch)
		if err != nil || repeated {
			return err
		}
		if run.Status == runs.StatusIncomplete { // ended by retention, as unused: its age counts from now on
			end := runs.Batch{AgentID: user, RunID: id, Records: []runs.Record{runs.Ended{AgentID: user, RunID: id}}}
			if _, err := a.runs.AppendTx(tx, end); err != nil {
				return err
			}
		}
		h, err := a.head(&tx.Rx, user, id)
		if err == nil {
			h.UpdatedAt = event.Timestamp
			err = a.put(tx, user, id, h, kept.Actions.StateDelta)
		}
		return err
	})
	if mine, ok := to.(*stored); err == nil && ok && !(repeated && mine.has(event.ID)) {
		mine.apply(event, &kept)
	}
	return err
}

// required returns ErrInvalid if a value is empty. named holds names and values.
func required(named ...string) error {
	for i := 0; i < len(named); i += 2 {
		if named[i+1] == "" {
			return fmt.Errorf("%w: the %s is empty", db.ErrInvalid, named[i])
		}
	}
	return nil
}

// withoutTemporary returns a delta without the keys that last for one invocation.
func withoutTemporary(delta map[string]any) map[string]any {
	kept := maps.Clone(delta)
	maps.DeleteFunc(kept, func(key string, _ any) bool {
		return strings.HasPrefix(key, session.KeyPrefixTemp)
	})
	return kept
}

// put stores a session's head with a change of state, and what of the change belongs to the app or
// to the user.
func (a app) put(tx *db.Tx, user, id string, h head, delta map[string]any) error {
	if h.State == nil {
		h.State = map[string]any{}
	}
	for key, value := range withoutTemporary(delta) {
		owner := ofUser(user)
		switch {
		case strings.HasPrefix(key, session.KeyPrefixApp):
			owner = ofApp
		case !strings.HasPrefix(key, session.KeyPrefixUser):
			h.State[key] = value
			continue
		}
		if err := a.set(tx, state.Ref{Owner: owner, Key: key}, value); err != nil {
			return err
		}
	}
	return a.set(tx, headOf(user, id), h)
}

func (a app) set(tx *db.Tx, ref state.Ref, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%w: state %q: %w", db.ErrInvalid, ref.Key, err)
	}
	_, err = a.state.SetTx(tx, ref, text)
	return err
}

// head returns the head of a session. It is empty if a limit of the store state removed it.
func (a app) head(rx *db.Rx, user, id string) (h head, err error) {
	item, err := a.state.GetTx(rx, headOf(user, id))
	if errors.Is(err, db.ErrNotFound) {
		return head{State: map[string]any{}}, nil
	}
	if err == nil {
		err = json.Unmarshal(item.Value, &h)
	}
	return h, err
}

// get returns a session without its events.
func (a app) get(rx *db.Rx, name string, run runs.RunRef) (*stored, error) {
	if _, err := a.runs.GetTx(rx, run); err != nil {
		return nil, err
	}
	h, err := a.head(rx, run.AgentID, run.RunID)
	if err != nil {
		return nil, err
	}
	for _, owner := range []string{ofApp, ofUser(run.AgentID)} {
		if err := a.addState(rx, h.State, owner); err != nil {
			return nil, err
		}
	}
	return &stored{app: name, run: run, state: h.State, updatedAt: h.UpdatedAt}, nil
}

// addState adds the state of an owner, whose keys have their prefixes.
func (a app) addState(rx *db.Rx, to map[string]any, owner string) error {
	for at := (db.At{Limit: db.MaxLimit}); ; {
		page, err := a.state.PageTx(rx, state.Filter{Owner: &owner}, at)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			var value any
			if err := json.Unmarshal(item.Value, &value); err != nil {
				return err
			}
			to[item.Key] = value
		}
		if at.After = page.Next; at.After == "" {
			return nil
		}
	}
}

// events returns the last events of a session, or all for 0, from a time on.
func (a app) events(
	rx *db.Rx, run runs.RunRef, last int, after time.Time,
) (list []*session.Event, err error) {
	if last <= 0 {
		list, err = a.eventsFrom(rx, run, "")
	}
	from := ""
	for lines := int64(min(last, 1<<24)); lines > 0 && len(list) < last && err == nil; lines *= 2 {
		before := from // other records may be among the last
		if from, err = a.runs.CursorBeforeTx(rx, run, lines); err == nil && from == before {
			break // the beginning
		}
		if err == nil {
			list, err = a.eventsFrom(rx, run, from)
		}
	}
	if last > 0 && len(list) > last {
		list = list[len(list)-last:]
	}
	return slices.DeleteFunc(list, func(e *session.Event) bool { return e.Timestamp.Before(after) }), err
}

// eventsFrom returns the events of a session after a cursor.
func (a app) eventsFrom(rx *db.Rx, run runs.RunRef, from string) (list []*session.Event, err error) {
	for at := (db.At{After: from, Limit: db.MaxLimit}); ; {
		page, err := a.runs.TracePageTx(rx, run, at)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			raw, is := item.Item.Record.(runs.Unknown)
			if !is || raw.Kind != eventKind && raw.Kind != modelKind {
				continue
			}
			var r record
			if err := json.Unmarshal(raw.Raw, &r); err != nil {
				return nil, err
			}
			if r.Event != nil {
				list = append(list, r.Event)
			}
		}
		if at.After = page.Next; at.After == "" {
			return list, nil
		}
	}
}
