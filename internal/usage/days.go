package usage

import (
	"selvedge/db"
	"selvedge/internal/txn"
)

const (
	sqlOfTrace = `SELECT scope, run_id FROM usage_runs WHERE id = ?`
	sqlStays   = `SELECT 1 WHERE EXISTS (SELECT 1 FROM runs WHERE scope = ?1 AND run_id = ?2)
	OR EXISTS (SELECT 1 FROM live_runs WHERE scope = ?1 AND run_id = ?2)`
	sqlNamed  = `SELECT 1 FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL`
	sqlAddDay = `INSERT INTO usage_days (scope, day, agent_id, session_id, ` + countColumns + `, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlSetDay = `UPDATE usage_days SET input_tokens = ?, cache_read_input_tokens = ?,
	cache_write_input_tokens = ?, output_tokens = ?, reasoning_output_tokens = ?, cost_nanos = ?,
	checksum = ? WHERE id = ?`
	sqlSettling  = `UPDATE usage_runs SET scope = scope WHERE run_id = ? AND scope = ?`
	sqlDropUsage = `DELETE FROM usage_runs WHERE run_id = ? AND scope = ?`
)

var dayOfModel = txn.UsageDays.Rows(
	`SELECT id, ` + countColumns + ` FROM usage_days WHERE agent_id = ? AND session_id = ? AND scope = ?
	AND day = ? AND provider IS NOT DISTINCT FROM ?
	AND request_model IS NOT DISTINCT FROM ? AND response_model IS NOT DISTINCT FROM ? LIMIT 1`,
)

// A Name is what a trace and a live run of the same work share.
type Name struct {
	Scope int64  `db:"scope"`
	RunID string `db:"run_id"`
}

// NameOf returns the name of a trace that counts; the zero Name: it does not.
func NameOf(rx *db.Rx, key int64) (n Name, err error) {
	_, err = rx.Find(&n, sqlOfTrace, 2*key)
	return n, err
}

// Settle adds the usage of runs that are gone to that of their days, once neither a trace nor a live
// run has their name. Call it after the removal.
func Settle(tx *db.Tx, n Name) error {
	// Removals of a trace and of its live run wait for each other here.
	if err := tx.Store().Touch(sqlSettling, n.RunID, n.Scope); err != nil {
		return err
	}
	sources, err := sourcesOf(&tx.Rx, n)
	if err != nil || len(sources) == 0 {
		return err
	}
	if stays, err := tx.Find(new(int64), sqlStays, n.Scope, n.RunID); err != nil || stays {
		return err
	}
	rows, err := rowsOf(&tx.Rx, n, sources)
	if err != nil {
		return err
	}
	d := day{scope: n.Scope}
	if last := sources[len(sources)-1]; last.SessionID != nil {
		d.session = *last.SessionID
		if sources[0].AgentID != nil {
			named, err := tx.Find(new(int64), sqlNamed, n.Scope, d.session)
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
			at = sources[0].RecordedAt
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
	_, err = tx.Exec(sqlDropUsage, n.RunID, n.Scope)
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
	found, err := tx.Store().FindToChange(&row, dayOfModel, d.agent, d.session, d.scope, d.begins,
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
