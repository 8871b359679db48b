package usage

import (
	"selvedge/db"
	"selvedge/internal/txn"
)

const (
	sqlOfTrace = `SELECT u.id FROM runs AS r JOIN usage_runs AS u ON u.run_id = r.run_id AND u.scope = r.scope
WHERE r.key = ?`
	sqlOfLive = `SELECT u.id FROM usage_runs AS u WHERE u.run_id = ? AND u.scope = ?`
	sqlOver   = sqlRun + `id = ?1 AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.scope = usage_runs.scope
	AND r.run_id = usage_runs.run_id) AND NOT EXISTS (SELECT 1 FROM live_runs AS r
	WHERE r.scope = usage_runs.scope AND r.run_id = usage_runs.run_id)`
	sqlNamed  = `SELECT 1 FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL`
	dayValues = `provider, request_model, response_model, input_tokens, cache_read_input_tokens,
	cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_nanos`
	sqlDay = `SELECT id, ` + dayValues + ` FROM usage_days WHERE agent_id = ? AND session_id = ? AND scope = ?
	AND day = ? AND provider IS NOT DISTINCT FROM ?
	AND request_model IS NOT DISTINCT FROM ? AND response_model IS NOT DISTINCT FROM ? LIMIT 1`
	sqlAddDay = `INSERT INTO usage_days (scope, day, agent_id, session_id, ` + dayValues + `, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlSetDay = `UPDATE usage_days SET input_tokens = ?, cache_read_input_tokens = ?,
	cache_write_input_tokens = ?, output_tokens = ?, reasoning_output_tokens = ?, cost_nanos = ?,
	checksum = ? WHERE id = ?`
	sqlDropUsage = `DELETE FROM usage_runs WHERE id = ?`
)

// OfTrace returns the number of the usage of a trace's run; 0: it has none.
func OfTrace(rx *db.Rx, key int64) (id int64, err error) {
	_, err = rx.Find(&id, sqlOfTrace, key)
	return id, err
}

// OfLive is OfTrace for a live run.
func OfLive(rx *db.Rx, scope int64, runID string) (id int64, err error) {
	_, err = rx.Find(&id, sqlOfLive, runID, scope)
	return id, err
}

// Settle adds the usage of a run that is gone to that of its days, once neither its trace nor its
// live run is there. Call it after the removal, with the number from before it.
func Settle(tx *db.Tx, id int64) error {
	if id == 0 {
		return nil
	}
	var run usageRun
	if over, err := tx.Find(&run, sqlOver, id); err != nil || !over {
		return err
	}
	rows, err := run.rows(&tx.Rx)
	if err != nil {
		return err
	}
	d := day{scope: run.Scope}
	if run.SessionID != nil {
		d.session = *run.SessionID
		if run.AgentID != nil {
			named, err := tx.Find(new(int64), sqlNamed, run.Scope, d.session)
			if err != nil {
				return err
			}
			if !named { // a row less for each session
				d.session = ""
			}
		}
	}
	totals := map[dayKey]*Counts{}
	var order []dayKey
	for i := range rows {
		r := &rows[i]
		d := d
		if r.AgentID != nil {
			d.agent = *r.AgentID
		}
		at := r.RecordedAt
		if at == nil {
			at = run.RecordedAt
		}
		if at == nil {
			at = new(db.Nanos(tx.Now()))
		}
		d.begins = *at - (*at%dayNanos+dayNanos)%dayNanos
		key := dayKey{d, name(r.Provider), name(r.RequestModel), name(r.ResponseModel)}
		if totals[key] == nil {
			totals[key] = &Counts{r.Provider, r.RequestModel, r.ResponseModel, Numbers{}}
			order = append(order, key)
		}
		totals[key].Add(r.Numbers)
	}
	for _, key := range order {
		if err := key.add(tx, totals[key]); err != nil {
			return err
		}
	}
	_, err = tx.Exec(sqlDropUsage, id)
	return err
}

const dayNanos = 24 * 60 * 60 * 1_000_000_000

type day struct {
	scope, begins  int64
	agent, session string
}

type dayKey struct {
	day
	provider, request, response [2]string // a text, and whether there is one
}

func name(s *string) [2]string {
	if s == nil {
		return [2]string{}
	}
	return [2]string{*s, "named"}
}

// add adds counts to the row of the day and the model.
func (d day) add(tx *db.Tx, c *Counts) error {
	var row struct {
		ID int64 `db:"id"`
		Counts
	}
	found, err := tx.Store().FindLocked(&row, sqlDay, d.agent, d.session, d.scope, d.begins,
		txn.Arg(c.Provider), txn.Arg(c.RequestModel), txn.Arg(c.ResponseModel))
	if err != nil {
		return err
	}
	sum := *c
	sum.Add(row.Numbers)
	columns := append([]any{d.scope, d.begins, d.agent, d.session}, sum.columns()...)
	check := txn.Checksum(columns...)
	if !found {
		return tx.Store().Queue(sqlAddDay, append(columns, check)...)
	}
	return tx.Store().Queue(sqlSetDay, append(columns[7:], check, row.ID)...)
}
