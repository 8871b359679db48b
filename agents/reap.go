package agents

import (
	"context"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// judgedAtOnce is how many agents are read at once.
var judgedAtOnce = 1000 // a variable for tests

// longestTurn is after how long a transaction of many changes ends and lets other writers in.
var longestTurn = 5 * time.Millisecond // a variable for tests

var (
	sqlJudged = `SELECT a.id, a.session_id, a.started_at, a.status, a.pid, a.boot_id,
	a.pid_ns, r.epoch, r.pid_born_at, ` + sqlLease + `
FROM agents a LEFT JOIN agent_reservations r ON r.agent_id = a.id
WHERE a.scope = ?1 AND a.status = 'active'`
	// By start, because entries that started together are stored together.
	sqlJudgeAll = sqlJudged + ` AND a.put_aside_at IS NULL AND a.started_at <= ?
	AND (a.started_at < ? OR a.session_id > ?)
ORDER BY a.started_at DESC, a.session_id LIMIT ?`
	sqlJudgeThread = sqlJudged + ` AND ` + paging.Same("a.thread", "?2") +
		` AND a.session_id > ?3 ORDER BY a.session_id LIMIT ?4`
)

// ReapDead abandons all active entries whose agents are dead (see LivenessFor and Lease), and
// counts them. It works in short transactions: entries abandoned before an error stay abandoned.
func (r *Registry) ReapDead(ctx context.Context) (int, error) {
	return r.reap(ctx, "reap dead agents", byStart, liveness)
}

// ReapDeadForThread is ReapDead for the agents of one thread.
func (r *Registry) ReapDeadForThread(ctx context.Context, thread string) (int, error) {
	onThread := func(rx *db.Rx, scope int64, after place) (rows []stored, err error) {
		return rows, rx.Select(&rows, sqlJudgeThread, scope, thread, after.id, judgedAtOnce)
	}
	return r.reap(ctx, "reap dead agents of a thread", onThread, liveness)
}

// Recover abandons the active entries whose agents are certainly dead, and counts them: those with
// a lease that is over, and those without a lease with a process that is known to be gone. It is
// safe at any time, from any process. It leaves alone an entry with a pid that can't be judged from
// here, such as an imported one; ReapDead takes such an agent for dead if no process has the pid.
func (r *Registry) Recover(ctx context.Context) (int, error) {
	return r.reap(ctx, "recover agents", byStart, certainly)
}

// byStart pages through all active entries.
func byStart(rx *db.Rx, scope int64, after place) (rows []stored, err error) {
	return rows, rx.Select(&rows, sqlJudgeAll, scope, after.startedAt, after.startedAt, after.id, judgedAtOnce)
}

// A judge returns the liveness of an agent.
type judge func(*db.Rx, *stored) (Liveness, error)

// certainly is liveness, but Unknown for a pid without a recorded namespace.
func certainly(rx *db.Rx, s *stored) (Liveness, error) {
	if own := txn.PIDNamespace(); s.TTL == nil && own != nil && s.PIDNS == nil {
		return Unknown, nil
	}
	return liveness(rx, s)
}

// reap abandons those agents of the pages that are dead.
func (r *Registry) reap(ctx context.Context, why string,
	page func(rx *db.Rx, scope int64, after place) ([]stored, error), by judge,
) (int, error) {
	return stores.Sweep[place, string]{
		DB: r.db, Op: why, Turn: longestTurn,
		Page: func(rx *db.Rx, after place) (dead []string, last place, more bool, err error) {
			last = after
			err = r.readTx(rx, why, "", func(scope int64) error {
				rows, err := page(rx, scope, after)
				for i := 0; i < len(rows) && err == nil; i++ {
					var judged Liveness
					if judged, err = by(rx, &rows[i]); judged == Dead {
						dead = append(dead, rows[i].SessionID)
					}
					last = place{rows[i].Started, rows[i].SessionID}
				}
				more = len(rows) == judgedAtOnce
				return err
			})
			return dead, last, more, err
		},
		End: func(tx *db.Tx, id string) (abandoned bool, err error) {
			err = r.writeTx(tx, why, "", func(scope int64) error {
				s, err := lockedEntry(tx, scope, id) // since it was read the agent may have ended
				if err != nil || s == nil || s.Status != Active {
					return err
				}
				judged, err := by(&tx.Rx, s)
				if err != nil || judged != Dead {
					return err
				}
				abandoned = true
				return end(tx, s, Abandoned)
			})
			return abandoned, err
		},
	}.Run(ctx, first)
}
