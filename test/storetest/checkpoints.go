package storetest

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
)

// checkpointsOf are the checkpoints of a store that names an agent; "": it names none.
type checkpointsOf string

var (
	ofCheckpoints      = checkpointsOf("").laws("checkpoints")
	ofAgentCheckpoints = checkpointsOf("ann").laws("checkpoints of an agent")
)

func (agent checkpointsOf) laws(name string) store {
	return store{name, slices.Concat(
		lists[checkpoints.Ref, checkpoints.Filter, checkpoints.Summary, checkpoints.Summary](agent.listed).laws(),
		streams[string, checkpoints.Summary](agent.followed).laws(),
		holdLaws(agent.held, name), keeps(agent.values).laws()), agent.held}
}

func (agent checkpointsOf) open(d *db.DB, scope string) *checkpoints.Store {
	return checkpoints.NewStore(d, checkpoints.Options{Scope: scope, Agent: string(agent)})
}

func pausedRun(id string) *checkpoints.PausedWorkflow {
	return &checkpoints.PausedWorkflow{
		RunID:    id,
		Workflow: checkpoints.Workflow{ID: "w", Name: "W", Start: "gate"}, PausedStageID: "gate",
	}
}

func (agent checkpointsOf) listed(_ *testing.T, d *db.DB, scope string) things[checkpoints.Ref,
	checkpoints.Filter, checkpoints.Summary, checkpoints.Summary] {
	s := agent.open(d, scope)
	return things[checkpoints.Ref, checkpoints.Filter, checkpoints.Summary, checkpoints.Summary]{
		lister: s,
		add: func(ctx context.Context, n int) (checkpoints.Ref, error) {
			return checkpoints.Ref{RunID: nth(n)}, s.Save(ctx, pausedRun(nth(n)))
		},
		addTx: func(tx *db.Tx, n int) (checkpoints.Ref, error) {
			return checkpoints.Ref{RunID: nth(n)}, s.SaveTx(tx, pausedRun(nth(n)))
		},
		name:  func(ref checkpoints.Ref) string { return ref.RunID },
		of:    func(c checkpoints.Summary) checkpoints.Ref { return checkpoints.Ref{RunID: c.RunID} },
		began: func(c checkpoints.Summary) time.Time { return c.CreatedAt }, unit: time.Nanosecond,
		pins: checkpointPins{s},
		big: func(ctx context.Context, n int, text string) (checkpoints.Ref, error) {
			p := pausedRun(nth(n))
			p.Prompt = text
			return checkpoints.Ref{RunID: nth(n)}, s.Save(ctx, p)
		},
	}
}

// checkpointPins pin runs, as the store does.
type checkpointPins struct{ s *checkpoints.Store }

func (p checkpointPins) Pin(ctx context.Context, ref checkpoints.Ref) error {
	return p.s.Pin(ctx, ref.RunID)
}

func (p checkpointPins) PinTx(tx *db.Tx, ref checkpoints.Ref) error { return p.s.PinTx(tx, ref.RunID) }

func (p checkpointPins) Unpin(ctx context.Context, ref checkpoints.Ref) error {
	return p.s.Unpin(ctx, ref.RunID)
}

func (p checkpointPins) UnpinTx(tx *db.Tx, ref checkpoints.Ref) error {
	return p.s.UnpinTx(tx, ref.RunID)
}

func (agent checkpointsOf) followed(_ *testing.T, d *db.DB, scope string,
) followed[string, checkpoints.Summary] {
	s := agent.open(d, scope)
	ref := func(id string) checkpoints.Ref { return checkpoints.Ref{RunID: id} }
	return followed[string, checkpoints.Summary]{
		states: true,
		add:    func(ctx context.Context, n int) (string, error) { return nth(n), s.Save(ctx, pausedRun(nth(n))) },
		addTx:  func(tx *db.Tx, n int) error { return s.SaveTx(tx, pausedRun(nth(n))) },
		remove: func(ctx context.Context, id string) error { return s.Delete(ctx, ref(id)) },
		end: func(ctx context.Context, id string) error {
			_, _, err := s.Claim(ctx, id)
			return err
		}, began: string(checkpoints.Paused), ended: string(checkpoints.Claimed),
		append: func(tx *db.Tx, id string, texts ...string) error {
			p := pausedRun(id)
			p.Prompt = texts[len(texts)-1]
			return s.SaveTx(tx, p)
		},
		follow: func(ctx context.Context, id, cursor string) iter.Seq2[checkpoints.Followed, error] {
			return s.Follow(ctx, ref(id), cursor)
		},
		followAll: func(ctx context.Context, status string) iter.Seq2[checkpoints.Followed, error] {
			return s.FollowAll(ctx, checkpoints.Filter{State: checkpoints.State(status)})
		},
		before: func(ctx context.Context, id string, n int64) (string,
			error,
		) {
			return s.CursorBefore(ctx, ref(id), n)
		},
		says: func(_ context.Context, c checkpoints.Summary) string { return c.Prompt },
	}
}

func (agent checkpointsOf) held(d *db.DB, scope string) holds {
	s := agent.open(d, scope)
	held := func(c *checkpoints.Claim, won bool, err error) (holding, bool, error) {
		if err != nil || !won {
			return holding{}, false, err
		}
		return holding{c.Epoch(), c.HoldTx, c.Release}, true, nil
	}
	return holds{
		add:    func(ctx context.Context, name string) error { return s.Save(ctx, pausedRun(name)) },
		take:   func(ctx context.Context, name string) (holding, bool, error) { return held(s.Claim(ctx, name)) },
		takeTx: func(tx *db.Tx, name string) (holding, bool, error) { return held(s.ClaimTx(tx, name)) },
		reattach: func(ctx context.Context, name string, epoch int64) (holding, error) {
			c, err := s.Reattach(ctx, name, epoch)
			h, _, err := held(c, err == nil, err)
			return h, err
		},
		remove: func(ctx context.Context, name string) error {
			return s.Delete(ctx,
				checkpoints.Ref{RunID: name})
		},
		recover: s.Recover,
	}
}

func (agent checkpointsOf) values(t *testing.T, d *db.DB, scope string) []kept {
	s := agent.open(d, scope)
	p := pausedRun("r")
	p.CreatedAt = time.Date(2026, 5, 2, 10, 0, 0, 0, time.UTC)
	document, err := p.Document()
	must(t, err)
	// A value replaces the state of the workflow, {}, in this document.
	head, tail, _ := strings.Cut(string(document), `"wf_state": {}`)
	head += `"wf_state": `
	return []kept{{
		name: "document", json: true,
		refuses: []string{
			"half of a surrogate pair", "invalid UTF-8 in JSON", "a number beyond a float",
			"no JSON",
		},
		put: func(ctx context.Context, n int, value string) error {
			return s.SaveDocument(ctx, nth(n), []byte(head+value+tail))
		},
		get: func(ctx context.Context, n int) (string, error) {
			document, _, err := s.LoadDocument(ctx, nth(n))
			return strings.TrimSuffix(strings.TrimPrefix(string(document), head), tail), err
		},
	}}
}
