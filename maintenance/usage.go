package maintenance

import (
	"context"
	"encoding/json"
	"slices"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/usage"
)

// Each record that counts has a row in usage_records. Check compares the two, and Salvage adds the rows
// that are lost.

const (
	sqlTraces = `SELECT scope, run_id, agent_id, '' AS session_id, key AS run, 0 AS live_run FROM runs
WHERE scope = (SELECT id FROM scopes WHERE name = ?) ORDER BY key`
	sqlLives = `SELECT scope, run_id, '' AS agent_id, session_id, 0 AS run, key AS live_run FROM live_runs
WHERE scope = (SELECT id FROM scopes WHERE name = ?) ORDER BY key`
	sqlTraceSays = `SELECT id & 16777215 AS sequence, coalesce(unknown_kind, kind) AS account, '' AS step_key,
	recorded_at, raw FROM run_records WHERE id > CAST(?1 AS BIGINT) << 24
	AND id < (CAST(?1 AS BIGINT) + 1) << 24 AND raw IS NOT NULL
	AND (kind = 'turn' OR unknown_kind = 'model_turn')
UNION ALL SELECT 0, 'reply', step_key, changed_at, result FROM run_steps
WHERE run = ?1 AND kind = 'reply' AND state = 'done'`
	sqlLiveSays = `SELECT coalesce(sequence, id & 4294967295) AS sequence, type AS account, '' AS step_key,
	recorded_at, event AS raw FROM live_events WHERE id >= CAST(?1 AS BIGINT) << 32
	AND id < (CAST(?1 AS BIGINT) + 1) << 32 AND type IN ('turn_end', 'agent_end')`
)

// A counting is a trace or a live run that is here.
type counting struct {
	Scope     int64  `db:"scope"`
	RunID     string `db:"run_id"`
	AgentID   string `db:"agent_id"`
	SessionID string `db:"session_id"`
	Run       int64  `db:"run"`
	LiveRun   int64  `db:"live_run"`
}

func (c *counting) record() usage.Record {
	return usage.Record{
		Scope: c.Scope, RunID: c.RunID, AgentID: c.AgentID, SessionID: c.SessionID, Run: c.Run, LiveRun: c.LiveRun,
	}
}

// compare compares what its records count with their rows.
func (c *counting) compare(rx *db.Rx) (usage.Difference, error) {
	var rows []struct {
		Sequence   int64  `db:"sequence"`
		Account    string `db:"account"`
		StepKey    string `db:"step_key"`
		RecordedAt *int64 `db:"recorded_at"`
		Raw        []byte `db:"raw"`
	}
	query, key := sqlTraceSays, c.Run
	if c.LiveRun != 0 {
		query, key = sqlLiveSays, c.LiveRun
	}
	if err := rx.Select(&rows, query, key); err != nil {
		return usage.Difference{}, err
	}
	var said []usage.Said
	for _, row := range rows {
		var counts usage.Counts
		if row.Account == usage.Reply {
			var reply struct {
				Usage db.Usage `json:"usage"`
			}
			_ = json.Unmarshal(row.Raw, &reply) // else the check of the steps says it
			counts = usage.CountsOf(reply.Usage)
		} else {
			counts, _ = usage.Read(row.Raw)
		}
		if counts.Numbers == (usage.Numbers{}) {
			continue
		}
		r := c.record()
		r.Account, r.Sequence, r.StepKey = row.Account, row.Sequence, row.StepKey
		if row.RecordedAt != nil {
			r.RecordedAt = *row.RecordedAt
		} else if row.Account == usage.ModelTurn {
			r.RecordedAt = usage.RecordedAt(row.Raw)
		}
		said = append(said, usage.Said{Record: r, Counts: counts})
	}
	return usage.Compare(rx, c.record(), said)
}

// usage compares the rows of usage of a scope with its records.
func (c *deep) usage(scope, query string) {
	list, err := countingIn(c.ctx, c.d, scope, query)
	c.failed(err)
	for i := range list {
		if c.err != nil {
			return
		}
		var d usage.Difference
		err := c.d.Read(c.ctx, "check", func(rx *db.Rx) (err error) {
			d, err = list[i].compare(rx)
			return err
		})
		c.failed(err)
		if len(d.Lost) > 0 || d.Moved() > 0 {
			c.derived("run %q: %d records that count have no row of usage, and %d rows no record like them",
				list[i].RunID, len(d.Lost), d.Moved())
		}
	}
}

func countingIn(ctx context.Context, d *db.DB, scope, query string) ([]counting, error) {
	return stores.Get(ctx, d.Read, "read runs", func(rx *db.Rx) (list []counting, err error) {
		err = rx.Select(&list, query, scope)
		return list, err
	})
}

// restateUsage adds the rows of usage that are lost, of all scopes.
func restateUsage(ctx context.Context, d *db.DB) error {
	scopes, err := scopesOf(ctx, d)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		for _, query := range []string{sqlTraces, sqlLives} {
			list, err := countingIn(ctx, d, scope, query)
			for some := range slices.Chunk(list, 100) {
				if err == nil {
					err = d.Write(ctx, "restate usage", func(tx *db.Tx) error { return restateSome(tx, some) })
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func restateSome(tx *db.Tx, some []counting) error {
	for i := range some {
		d, err := some[i].compare(&tx.Rx)
		if err == nil {
			err = d.Mend(tx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
