package adk

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/adk/v2/session"

	"selvedge/runs"
)

// A stored is a session as a call read it, with what the program appended since.
type stored struct {
	app string
	run runs.RunRef

	mu        sync.RWMutex
	state     map[string]any
	events    []*session.Event
	updatedAt time.Time
}

func (s *stored) ID() string           { return s.run.RunID }
func (s *stored) AppName() string      { return s.app }
func (s *stored) UserID() string       { return s.run.AgentID }
func (s *stored) State() session.State { return (*values)(s) }

func (s *stored) Events() session.Events {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return events(slices.Clone(s.events))
}

func (s *stored) LastUpdateTime() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.updatedAt
}

// has reports whether the session holds the event with an id.
func (s *stored) has(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(s.events, func(e *session.Event) bool { return e.ID == id })
}

// apply adds an event that was stored as kept. Temporary state stays in memory alone.
func (s *stored) apply(event, kept *session.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.state, event.Actions.StateDelta)
	s.events = append(s.events, kept)
	s.updatedAt = event.Timestamp
}

// values are the state of a session. Set changes it in memory: what is to last is in the StateDelta
// of an event.
type values stored

func (v *values) Get(key string) (any, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	value, ok := v.state[key]
	if !ok {
		return nil, session.ErrStateKeyNotExist
	}
	return value, nil
}

func (v *values) Set(key string, value any) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state[key] = value
	return nil
}

func (v *values) All() iter.Seq2[string, any] {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.All(maps.Clone(v.state))
}

type events []*session.Event

func (e events) All() iter.Seq[*session.Event] { return slices.Values(e) }
func (e events) Len() int                      { return len(e) }

func (e events) At(i int) *session.Event {
	if i < 0 || i >= len(e) {
		return nil
	}
	return e[i]
}
