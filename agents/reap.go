package agents

import (
	"context"
	"time"

	"selvedge/db"
)

// Reaping looks in reads, where it is in nobody's way, and writes only about those it found dead:
// judged again under the writer, a few at a time.
var judgedAtOnce = 1000 // a variable for tests

// longestTurn is after how long a transaction of many changes ends and lets other writers in.
var longestTurn = 5 * time.Millisecond // a variable for tests

var (
	sqlJudged = `SELECT a.id, a.session_id, a.started_at, a.status, a.pid, a.boot_id,
	a.pid_ns, r.epoch, r.pid_born_at, ` + sqlLease + `
FROM agents a LEFT JOIN agent_reservations r ON r.agent_id = a.id
WHERE a.scope = ?1 AND a.status = 'active'`
	// By start: what began together lies together.
	sqlJudgeAll = sqlJudged + ` AND a.put_aside_at IS NULL AND a.started_at <= ?
	AND (a.started_at < ? OR a.session_id > ?)
ORDER BY a.started_at DESC, a.session_id LIMIT ?`
	sqlJudgeThread = sqlJudged + ` AND ` + db.Same("a.thread", "?2") +
		` AND a.session_id > ?3 ORDER BY a.session_id LIMIT ?4`
)

// ReapDead abandons all active entries whose agents are dead (see LivenessFor and Lease), and
// counts them. It goes in short transactions: when ctx ends in between, what was abandoned stays
// so.
func (r *Registry) ReapDead(ctx context.Context) (int, error) {
	return r.reap(ctx, reaping{"reap dead agents", byStart, liveness})
}

// ReapDeadTx is ReapDead inside a transaction, which is as long as there are many.
func (r *Registry) ReapDeadTx(tx *db.Tx) (int, error) {
	return r.reapTx(tx, reaping{"reap dead agents", byStart, liveness})
}

// ReapDeadForThread is ReapDead for the agents of one thread.
func (r *Registry) ReapDeadForThread(ctx context.Context, thread string) (int, error) {
	return r.reap(ctx, reaping{"reap dead agents of a thread", onThread(thread), liveness})
}

// ReapDeadForThreadTx is ReapDeadForThread inside a transaction.
func (r *Registry) ReapDeadForThreadTx(tx *db.Tx, thread string) (int, error) {
	return r.reapTx(tx, reaping{"reap dead agents of a thread", onThread(thread), liveness})
}

// Recover abandons the active entries whose agents are certainly dead, and counts them: those whose
// lease is over, and those without a lease whose process is known to be gone. It is safe at any
// time, by anybody. Entries whose pid nobody can judge from here are left alone, as those of an
// import, of which ReapDead takes a pid that no process has for a dead one.
func (r *Registry) Recover(ctx context.Context) (int, error) {
	return r.reap(ctx, reaping{"recover agents", byStart, certainly})
}

// RecoverTx is Recover inside a transaction, which is as long as there are many.
func (r *Registry) RecoverTx(tx *db.Tx) (int, error) {
	return r.reapTx(tx, reaping{"recover agents", byStart, certainly})
}

// A reaping is which agents are judged, and how.
type reaping struct {
	why  string
	page func(rx *db.Rx, scope int64, after place) ([]stored, error)
	by   judge
}

// byStart pages through all active entries.
func byStart(rx *db.Rx, scope int64, after place) (rows []stored, err error) {
	return rows, rx.Select(&rows, sqlJudgeAll, scope, after.startedAt, after.startedAt, after.id, judgedAtOnce)
}

// onThread pages through the active entries of one thread.
func onThread(thread string) func(rx *db.Rx, scope int64, after place) ([]stored, error) {
	return func(rx *db.Rx, scope int64, after place) (rows []stored, err error) {
		return rows, rx.Select(&rows, sqlJudgeThread, scope, thread, after.id, judgedAtOnce)
	}
}

// A judge says whether an agent lives.
type judge func(*db.Rx, *stored) (Liveness, error)

// certainly is liveness that knows nothing of a pid whose namespace was not kept.
func certainly(rx *db.Rx, w *stored) (Liveness, error) {
	if own := db.PIDNamespace(); w.TTL == nil && own != nil && w.PIDNS == nil {
		return Unknown, nil
	}
	return liveness(rx, w)
}

// dead gives the ids of those on a page who are dead, and where the next page begins.
func (g *reaping) dead(rx *db.Rx, scope int64, after place) (ids []string, next place, more bool, err error) {
	rows, err := g.page(rx, scope, after)
	for i := range rows {
		judged, err := g.by(rx, &rows[i])
		if err != nil {
			return nil, after, false, err
		}
		if judged == Dead {
			ids = append(ids, rows[i].SessionID)
		}
		after = place{rows[i].Started, rows[i].SessionID}
	}
	return ids, after, len(rows) == judgedAtOnce, err
}

func (r *Registry) reapTx(tx *db.Tx, g reaping) (reaped int, err error) {
	err = r.writeTx(tx, g.why, "", func(scope int64) error {
		for after, more := first, true; more; {
			var dead []string
			var err error
			if dead, after, more, err = g.dead(&tx.Rx, scope, after); err != nil {
				return err
			}
			for _, id := range dead {
				done, err := r.abandonIfDead(tx, scope, id, g.by)
				if err != nil {
					return err
				}
				if done {
					reaped++
				}
			}
		}
		if reaped == 0 {
			return nil
		}
		return tx.ForgetDeadOwners()
	})
	return reaped, err
}

func (r *Registry) reap(ctx context.Context, g reaping) (reaped int, err error) {
	for after, more := first, true; more; {
		var dead []string
		from := after
		more = false // in a scope that nobody wrote to nothing is read
		err := r.read(ctx, g.why, "", func(rx *db.Rx, scope int64) (err error) {
			dead, after, more, err = g.dead(rx, scope, from)
			return err
		})
		for err == nil && len(dead) > 0 {
			var abandoned, looked int
			abandoned, looked, err = r.abandonDead(ctx, g.why, dead, g.by)
			reaped, dead = reaped+abandoned, dead[looked:]
		}
		if err != nil {
			return reaped, err
		}
	}
	return reaped, nil
}

// abandonDead abandons those of ids that are still dead, and tells how many it looked at before its
// turn was over.
func (r *Registry) abandonDead(ctx context.Context, why string, ids []string, by judge) (abandoned,
	looked int, err error,
) {
	err = r.write(ctx, why, "", func(tx *db.Tx, scope int64) error {
		abandoned, looked = 0, 0
		for began := time.Now(); ; {
			done, err := r.abandonIfDead(tx, scope, ids[looked], by)
			if err != nil {
				return err
			}
			if done {
				abandoned++
			}
			if looked++; looked == len(ids) || time.Since(began) >= longestTurn {
				break
			}
		}
		if abandoned == 0 {
			return nil
		}
		return tx.ForgetDeadOwners()
	})
	return abandoned, looked, err
}

// abandonIfDead judges again: since the look somebody may have ended the agent, or taken the id.
func (r *Registry) abandonIfDead(tx *db.Tx, scope int64, id string, by judge) (abandoned bool, err error) {
	s, err := lockedEntry(tx, scope, id)
	if err != nil || s == nil || s.Status != Active {
		return false, err
	}
	judged, err := by(&tx.Rx, s)
	if err != nil || judged != Dead {
		return false, err
	}
	return true, abandon(tx, s)
}
