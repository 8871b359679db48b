package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// Check is db.Examine, and then has every store read all that it keeps, in every scope: documents, records and entries that
// can't be read as what they should be are problems of the check "deep", and so is a run that says something else than its
// trace, and a checkpoint that says something else than its document. It takes as long as reading the file through the stores.
func Check(ctx context.Context, d *db.DB) (db.Examination, error) {
	x, err := d.Examine(ctx)
	if err != nil {
		return x, err
	}
	scopes, err := scopesOf(ctx, d)
	if err != nil {
		return x, err
	}
	c := &deep{ctx: ctx, d: d}
	for _, scope := range scopes {
		for _, s := range stores {
			s.read(c, scope)
		}
	}
	x.Problems = append(x.Problems, c.found...)
	return x, c.err
}

type deep struct {
	ctx   context.Context
	d     *db.DB
	found []db.Problem
	err   error
}

// failed keeps an error as a problem where it tells of damage.
func (c *deep) failed(err error) {
	switch {
	case err == nil || c.err != nil:
	case errors.Is(err, db.ErrCorrupt):
		c.found = append(c.found, db.Problem{Check: "deep", Detail: err.Error()})
	default:
		c.err = err
	}
}

// read goes through a list to its end, or to its first error.
func read[T any](c *deep, list iter.Seq2[T, error], each func(T)) {
	for v, err := range list {
		if err != nil {
			c.failed(err)
			return
		}
		if c.err != nil {
			return
		}
		if each != nil {
			each(v)
		}
	}
}

func (c *deep) runs(scope string) {
	s := runs.NewStore(c.d, runs.Options{Scope: scope})
	read(c, s.All(c.ctx, runs.Filter{}), func(r runs.RunSummary) {
		var started *runs.Started
		var ended *runs.Ended
		var summary string
		later := false // a record of a later version, which may have ended it in its own way
		read(c, s.Trace(c.ctx, r.Ref), func(t runs.TraceRecord) {
			switch record := t.Record.(type) {
			case runs.Started:
				started = &record
			case runs.Ended:
				ended, summary = &record, ""
				if o := record.Termination.Outcome; o != nil {
					summary = o.Summary
				}
			case runs.Unknown:
				later = true
			}
		})
		if started != nil && (started.Intent != r.Intent || !started.StartedAt.Equal(r.StartedAt)) {
			c.found = append(c.found, db.Problem{Check: "deep", Detail: fmt.Sprintf("run %q of agent %q says another intent or start than its trace", r.Ref.RunID, r.Ref.AgentID)})
		}
		if !later && !endsAs(r, ended) {
			c.found = append(c.found, db.Problem{Check: "deep", Detail: fmt.Sprintf("run %q of agent %q says another end than its trace", r.Ref.RunID, r.Ref.AgentID)})
		}
		if r.Summary != "" && r.Summary != summary {
			c.found = append(c.found, db.Problem{Check: "deep", Detail: fmt.Sprintf("run %q of agent %q says another summary than its trace", r.Ref.RunID, r.Ref.AgentID)})
		}
	})
}

// endsAs reports whether a run ends as the last end in its trace says; nil: there is none.
func endsAs(r runs.RunSummary, ended *runs.Ended) bool {
	if ended == nil || r.EndedAt == nil {
		return ended == nil && r.EndedAt == nil
	}
	status, outcome := runs.StatusIncomplete, runs.OutcomeStatus("")
	if o := ended.Termination.Outcome; o != nil {
		status, outcome = runs.StatusCompleted, cmp.Or(ended.Termination.Status, o.Status)
	}
	return r.Status == status && r.Outcome == outcome && r.EndedAt.Equal(ended.EndedAt)
}

func (c *deep) live(scope string) {
	s := live.NewStore(c.d, live.Options{Scope: scope})
	read(c, s.All(c.ctx, live.Filter{}), func(r live.RunSnapshot) { read(c, s.EachEvent(c.ctx, r.ID), nil) })
}

func (c *deep) agents(scope string) {
	read(c, agents.NewRegistry(c.d, agents.Options{Scope: scope}).All(c.ctx, agents.Filter{}), nil)
}

func (c *deep) checkpoints(scope string) {
	s := checkpoints.NewStore(c.d, checkpoints.Options{Scope: scope})
	read(c, s.All(c.ctx, checkpoints.Filter{}), func(p checkpoints.Summary) {
		if p.Problem == "" { // else it is known, and was from the first
			c.paused(s, p)
		}
	})
}

// paused compares what a list shows of a run that waits with its document.
func (c *deep) paused(s *checkpoints.Store, listed checkpoints.Summary) {
	document, ok, err := s.Load(c.ctx, listed.RunID)
	c.failed(err)
	if err != nil || !ok || listed.State != checkpoints.Paused {
		return
	}
	if document.PausedStageID != listed.PausedStageID || document.Prompt != listed.Prompt || !document.CreatedAt.Equal(listed.CreatedAt) {
		c.found = append(c.found, db.Problem{Check: "deep", Detail: fmt.Sprintf("the checkpoint of run %q says another stage, prompt or time than its document", listed.RunID)})
	}
}

func (c *deep) workers(scope string) {
	read(c, workers.NewRuntimes(c.d, scope).All(c.ctx, workers.RuntimeFilter{}), func(r workers.RuntimeSummary) {
		if c.d.ReadOnly() {
			return
		}
		rt, err := workers.Open(c.ctx, c.d, workers.RuntimeOptions{Scope: scope, RuntimeID: r.RuntimeID})
		if err != nil {
			c.failed(err)
			return
		}
		read(c, rt.EachEvent(c.ctx), nil)
		read(c, rt.All(c.ctx, workers.WorkerFilter{}), func(w workers.WorkerSummary) {
			_, err := rt.WorkerDetail(c.ctx, w.WorkerRef)
			c.failed(err)
			read(c, rt.Transcript(c.ctx, w.WorkerRef), nil)
		})
	})
}
