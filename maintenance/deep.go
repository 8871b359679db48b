package maintenance

import (
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
// trace. It takes as long as reading the file through the stores.
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
		c.runs(runs.NewStore(d, runs.Options{Scope: scope}))
		c.live(live.NewStore(d, live.Options{Scope: scope}))
		read(c, agents.NewRegistry(d, agents.Options{Scope: scope}).All(ctx, agents.Filter{}), nil)
		c.checkpoints(checkpoints.NewStore(d, checkpoints.Options{Scope: scope}))
		c.workers(scope)
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

func (c *deep) runs(s *runs.Store) {
	read(c, s.All(c.ctx, runs.Filter{}), func(r runs.RunSummary) {
		var started *runs.Started
		var summary string
		read(c, s.Trace(c.ctx, runs.RunRef{AgentID: r.AgentID, RunID: r.RunID}), func(t runs.TraceRecord) {
			switch record := t.Record.(type) {
			case runs.Started:
				started = &record
			case runs.Ended:
				summary = ""
				if o := record.Termination.Outcome; o != nil {
					summary = o.Summary
				}
			}
		})
		if started != nil && (started.Intent != r.Intent || !started.StartedAt.Equal(r.StartedAt)) {
			c.found = append(c.found, db.Problem{Check: "deep", Detail: fmt.Sprintf("run %q of agent %q says another intent or start than its trace", r.RunID, r.AgentID)})
		}
		if r.Summary != "" && r.Summary != summary {
			c.found = append(c.found, db.Problem{Check: "deep", Detail: fmt.Sprintf("run %q of agent %q says another summary than its trace", r.RunID, r.AgentID)})
		}
	})
}

func (c *deep) live(s *live.Store) {
	read(c, s.All(c.ctx, live.Filter{}), func(r live.RunSnapshot) { read(c, s.EachEvent(c.ctx, r.ID), nil) })
}

func (c *deep) checkpoints(s *checkpoints.Store) {
	read(c, s.All(c.ctx, checkpoints.Filter{}), func(p checkpoints.Summary) {
		if p.Problem == "" { // else it is known, and was from the first
			_, _, err := s.Load(c.ctx, p.RunID)
			c.failed(err)
		}
	})
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
