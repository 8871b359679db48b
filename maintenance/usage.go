package maintenance

import (
	"context"
	"encoding/json"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/usage"
)

// Each record that counts has a row in usage_records. Check compares the two, and Salvage adds the rows
// that are lost.

const (
	// The columns are named as the fields of usage.Record.
	sqlTraces    = `SELECT scope, run_id AS runid, agent_id AS agentid, key AS run FROM runs WHERE `
	sqlLives     = `SELECT scope, run_id AS runid, session_id AS sessionid, key AS liverun FROM live_runs WHERE `
	sqlOfScope   = `scope = (SELECT id FROM scopes WHERE name = ?) ORDER BY key`
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

// compareUsage compares what the records of a trace or a live run count with their rows.
func compareUsage(rx *db.Rx, of usage.Record) (usage.Difference, error) {
	var rows []struct {
		Sequence   int64  `db:"sequence"`
		Account    string `db:"account"`
		StepKey    string `db:"step_key"`
		RecordedAt *int64 `db:"recorded_at"`
		Raw        []byte `db:"raw"`
	}
	query, key := sqlTraceSays, of.Run
	if of.LiveRun != 0 {
		query, key = sqlLiveSays, of.LiveRun
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
		r := of
		r.Account, r.Sequence, r.StepKey = row.Account, row.Sequence, row.StepKey
		if row.RecordedAt != nil {
			r.RecordedAt = *row.RecordedAt
		} else if row.Account == usage.ModelTurn {
			r.RecordedAt = usage.RecordedAt(row.Raw)
		}
		said = append(said, usage.Said{Record: r, Counts: counts})
	}
	return usage.Compare(rx, of, said)
}

// usage compares the rows of usage of a scope with its records.
func (c *deep) usage(scope, query string) {
	list, err := stores.Get(c.ctx, c.d.Read, "read runs", func(rx *db.Rx) (list []usage.Record, err error) {
		err = rx.Select(&list, query+sqlOfScope, scope)
		return list, err
	})
	c.failed(err)
	for i := range list {
		if c.err != nil {
			return
		}
		var d usage.Difference
		err := c.d.Read(c.ctx, "check", func(rx *db.Rx) (err error) {
			d, err = compareUsage(rx, list[i])
			return err
		})
		c.failed(err)
		if len(d.Lost) > 0 || d.Moved() > 0 {
			c.derived("run %q: %d records that count have no row of usage, and %d rows no record like them",
				list[i].RunID, len(d.Lost), d.Moved())
		}
	}
}

// restateUsage adds the rows of usage that are lost, of all scopes.
func restateUsage(ctx context.Context, d *db.DB) error {
	restate := func(keys, query string) error {
		_, err := stores.Restate(ctx, d, "restate usage", keys, func(tx *db.Tx, key int64) (string, error) {
			var of usage.Record
			if err := tx.Get(&of, query+`key = ?`, key); err != nil {
				return "", err
			}
			d, err := compareUsage(&tx.Rx, of)
			if err == nil {
				err = d.Mend(tx)
			}
			return "", err
		})
		return err
	}
	if err := restate(`SELECT key FROM runs ORDER BY key`, sqlTraces); err != nil {
		return err
	}
	return restate(`SELECT key FROM live_runs ORDER BY key`, sqlLives)
}
