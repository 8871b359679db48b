package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/workers"
)

// An Examination is the result of Examine.
type Examination struct {
	Problems  []db.Problem
	Checksums []ChecksumCount // of each table with checksums that has rows
}

// A ChecksumCount is how many rows of a table have a checksum. A row has none if it was last
// written before checksums existed, or if the user set the column to NULL to declare its contents
// right.
type ChecksumCount = engine.Checksums

// examine is db.DB.Check, and also reports how much of the file has checksums.
func examine(ctx context.Context, d *db.DB) (x Examination, err error) {
	return x, on(ctx, d, "check", func(e engine.Engine) error {
		checked, err := e.Check(ctx)
		for _, p := range checked.Problems {
			x.Problems = append(x.Problems, db.Problem(p))
		}
		x.Checksums = checked.Checksums
		return err
	})
}

// Repair recreates views, triggers and indexes of the schema that are missing or differ from what
// this program creates, and schema texts with a few flipped bits. It returns the names of what it
// recreated, including what db.Open repaired. It changes no row. db.Open repairs schema texts by itself
// if it can't parse the schema; a user's own view that can't be parsed becomes one whose only row
// is its text. A read-only handle repairs nothing.
func Repair(ctx context.Context, d *db.DB) (made []string, err error) {
	return made, on(ctx, d, "repair", func(e engine.Engine) (err error) {
		made, err = e.Repair(ctx)
		return err
	})
}

// Examine is db.DB.Check, and also counts the rows with and without a checksum and compares derived
// values: a run that differs from its trace, and a checkpoint that differs from its document, are
// problems of the check "derived". It does not compare them in a file with damaged pages or with
// another schema than this program's.
func Examine(ctx context.Context, d *db.DB) (Examination, error) {
	x, err := examine(ctx, d)
	if err != nil || slices.ContainsFunc(x.Problems,
		func(p db.Problem) bool { return p.Check == "integrity" || p.Check == "schema" }) {
		return x, err
	}
	s, err := d.Schema(ctx)
	if err != nil || s.Version != SchemaVersion() {
		return x, err
	}
	return x, inEveryScope(ctx, d, &x, func(c *deep, scope string) {
		c.derivedRuns(scope)
		c.checkpoints(scope)
	})
}

// Check is Examine, and also reads all data of every store, in every scope: unreadable documents,
// records and entries are problems of the check "deep". It takes as long as reading the file
// through the stores.
func Check(ctx context.Context, d *db.DB) (Examination, error) {
	x, err := examine(ctx, d)
	if err != nil {
		return x, err
	}
	far, rows := begin(ctx, d, "read"), int64(0)
	if far.at.Total > 0 {
		stats, _ := d.Stats(ctx) // empty if rows can't be counted
		for _, t := range stats.Tables {
			rows += t.Rows
		}
	}
	return x, db.Heard(ctx, inEveryScope(ctx, d, &x, func(c *deep, scope string) {
		c.far, c.each = far, far.at.Total/max(rows, 1)
		for _, s := range all {
			s.read(c, scope)
		}
	}))
}

// inEveryScope adds the problems of each scope to x.
func inEveryScope(ctx context.Context, d *db.DB, x *Examination, look func(c *deep, scope string)) error {
	scopes, err := scopesOf(ctx, d)
	if err != nil {
		return err
	}
	c := &deep{ctx: ctx, d: d}
	for _, scope := range scopes {
		look(c, scope)
	}
	x.Problems = append(x.Problems, c.found...)
	return c.err
}

type deep struct {
	ctx   context.Context
	d     *db.DB
	found []db.Problem
	err   error
	far   *far  // nil: no progress is reported
	each  int64 // bytes of the file that a row stands for
}

// failed records an error: as a problem if it is damage, else as the error of the check.
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
		c.far.more(c.each)
		if each != nil {
			each(v)
		}
	}
}

func (c *deep) runs(scope string) {
	s := runs.NewStore(c.d, runs.Options{Scope: scope})
	read(c, s.All(c.ctx, runs.Filter{}), func(r runs.RunSummary) { read(c, s.Trace(c.ctx, r.Ref), nil) })
	c.derivedRuns(scope)
	c.usage(scope, sqlTraces)
}

// sqlFrame selects the records of a run's trace other than turns.
const sqlFrame = `SELECT kind, raw FROM run_records WHERE id > CAST(?1 AS BIGINT) << 24
	AND id < (CAST(?1 AS BIGINT) + 1) << 24 AND kind IN ('started', 'ended', 'unknown') ORDER BY id`

// derivedRuns compares runs with their traces, without reading the turns.
func (c *deep) derivedRuns(scope string) {
	s := runs.NewStore(c.d, runs.Options{Scope: scope})
	read(c, s.All(c.ctx, runs.Filter{}), func(r runs.RunSummary) {
		var said frame
		err := c.d.Read(c.ctx, "check", func(rx *db.Rx) (err error) {
			if r, err = s.GetTx(rx, r.Ref); err == nil { // again, for one snapshot of both
				said, err = frameOf(rx, scope, r.Ref)
			}
			return err
		})
		switch {
		case err == nil:
			c.compareRun(r, said)
		case !errors.Is(err, db.ErrNotFound): // else it was removed meanwhile
			c.failed(err)
		}
	})
}

const sqlKeyOf = `SELECT key FROM runs WHERE scope = (SELECT id FROM scopes WHERE name = ?) AND agent_id = ?
	AND run_id = ?`

func frameOf(rx *db.Rx, scope string, ref runs.RunRef) (said frame, err error) {
	var key int64
	if err := rx.Get(&key, sqlKeyOf, scope, ref.AgentID, ref.RunID); err != nil {
		return said, err
	}
	var rows []struct {
		Kind string `db:"kind"`
		Raw  []byte `db:"raw"`
	}
	err = rx.Select(&rows, sqlFrame, key)
	for _, row := range rows {
		record, _ := runs.ParseRecord(row.Raw)
		said.later = said.later || row.Kind == "unknown"
		switch record := record.(type) {
		case runs.Started:
			said.started = &record
		case runs.Ended:
			said.ended, said.summary = &record, ""
			if o := record.Termination.Outcome; o != nil {
				said.summary = o.Summary
			}
		}
	}
	return said, err
}

// A frame holds the facts about a run in its trace.
type frame struct {
	started *runs.Started
	ended   *runs.Ended
	summary string
	later   bool // a record of a later version, which may have ended it in its own way
}

func (c *deep) compareRun(r runs.RunSummary, said frame) {
	differs := func(what string) {
		c.derived("run %q of agent %q says another %s than its trace", r.Ref.RunID, r.Ref.AgentID, what)
	}
	if s := said.started; s != nil && (s.Intent != r.Intent || !s.StartedAt.Equal(r.StartedAt)) {
		differs("intent or start")
	}
	if !said.later && !endsAs(r, said.ended) {
		differs("end")
	}
	if r.Summary != "" && r.Summary != said.summary {
		differs("summary")
	}
}

// derived adds a problem of the check "derived".
func (c *deep) derived(format string, args ...any) {
	c.found = append(c.found, db.Problem{Check: "derived", Detail: fmt.Sprintf(format, args...)})
}

// endsAs reports whether the end of a run agrees with the last end in its trace; nil: there is
// none.
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
	c.usage(scope, sqlLives)
}

func (c *deep) agents(scope string) {
	read(c, agents.NewRegistry(c.d, agents.Options{Scope: scope}).All(c.ctx, agents.Filter{}), nil)
}

func (c *deep) checkpoints(scope string) {
	s := checkpoints.NewStore(c.d, checkpoints.Options{Scope: scope})
	read(c, s.All(c.ctx, checkpoints.Filter{}), func(p checkpoints.Summary) {
		if p.Problem == "" { // else the problem is known since the document was written
			c.checkpoint(s, p)
		}
	})
}

// checkpoint compares the listed values of a waiting or claimed run with its document.
func (c *deep) checkpoint(s *checkpoints.Store, listed checkpoints.Summary) {
	ref := checkpoints.Ref{AgentID: listed.AgentID, RunID: listed.RunID, State: listed.State}
	var text []byte
	err := c.d.Read(c.ctx, "check", func(rx *db.Rx) (err error) {
		if listed, err = s.GetTx(rx, ref); err == nil { // one snapshot of both
			text, err = s.DocumentTx(rx, ref)
		}
		return err
	})
	// claimed or removed meanwhile, or known
	if errors.Is(err, db.ErrNotFound) || err == nil && listed.Problem != "" {
		return
	}
	var document *checkpoints.PausedWorkflow
	if err == nil {
		if document, err = checkpoints.Decode(text); err != nil {
			err = &db.Error{
				Op: "load checkpoint", Entity: "checkpoint", ID: listed.RunID,
				Err: fmt.Errorf("%w: %w", db.ErrCorrupt, err),
			}
		}
	}
	switch {
	case err != nil:
		c.failed(err)
	case document.PausedStageID != listed.PausedStageID || document.Prompt != listed.Prompt ||
		!document.CreatedAt.Equal(listed.CreatedAt):
		c.derived("the checkpoint of run %q says another stage, prompt or time than its document", listed.RunID)
	}
}

func (c *deep) state(scope string) {
	read(c, state.NewStore(c.d, state.Options{Scope: scope}).All(c.ctx, state.Filter{}), nil)
}

func (c *deep) workers(scope string) {
	read(c, workers.NewRuntimes(c.d, scope).All(c.ctx, workers.RuntimeFilter{}), func(r workers.RuntimeSummary) {
		if c.d.Store().ReadOnly {
			return
		}
		rt, err := workers.Open(c.ctx, c.d, workers.RuntimeOptions{
			Scope: scope, RuntimeID: r.RuntimeID, MustExist: true,
		})
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
