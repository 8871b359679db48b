package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

// poolOnServer is how many connections each process has that works by hand.
const poolOnServer = 8

// What a careful program runs by hand on our tables: READ COMMITTED, and FOR NO KEY UPDATE first
// on the row that it changes, so that the next statement sees earlier commits.
const (
	handLockRun = `SELECT key FROM runs WHERE key = $1 AND turn_count IS NULL FOR NO KEY UPDATE`
	handAppend  = `INSERT INTO run_records (id, kind, turn_index, prompt, tool, parameters, output, cli_kind,
	verdict, exact)
SELECT coalesce((SELECT max(id) FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24),
	key << 24) + 1, 'turn', $2, $3, $4, $5, $6, 'exited', 'pass', 0
FROM runs WHERE key = $1 AND turn_count IS NULL RETURNING id`

	handPaused = `SELECT c.id, d.document,
	(SELECT id FROM checkpoints WHERE scope = c.scope AND run_id = c.run_id AND state = 'claimed')
FROM checkpoints AS c JOIN checkpoint_documents AS d ON d.checkpoint = c.id WHERE c.scope = 1
	AND c.run_id = $1 AND c.state = 'paused' FOR NO KEY UPDATE OF c`
	handClaim = `UPDATE checkpoints SET state = 'claimed', epoch = coalesce(epoch, id << 24) + 1,
		claimed_at = 1, owner_id = $1 WHERE id = $2 AND state = 'paused' RETURNING epoch`

	handOnThread = `SELECT a.session_id FROM agents AS a LEFT JOIN agent_reservations AS r ON r.agent_id = a.id
WHERE a.scope = 1 AND a.thread = $1 AND a.status = 'active' ORDER BY a.session_id`
	handAgent = `INSERT INTO agents (scope, session_id, thread, status, started_at, base_state)
		VALUES (1, $1, $2, 'active', 1, 'b') RETURNING id`
	handReserve = `INSERT INTO agent_reservations (scope, thread, agent_id, reserved_at) VALUES (1, $1, $2, 1)
		RETURNING epoch`
	handHolder = `SELECT a.session_id FROM agent_reservations AS r JOIN agents AS a ON a.id = r.agent_id
		WHERE r.scope = 1 AND r.thread = $1`

	handLease = `INSERT INTO agent_reservations (scope, thread, agent_id, reserved_at, owner_id, lease_ttl,
		lease_until, lease_boot_id) VALUES (1, $1, $2, 1, $3, 100, 100, 'b') RETURNING epoch`
	handLockLease = `SELECT epoch FROM agent_reservations WHERE epoch = $1 AND scope = 1
		AND lease_until > 1 FOR NO KEY UPDATE`
	handBeat = `UPDATE agent_reservations SET heartbeat_at = $2, lease_until = $2 + lease_ttl
		WHERE epoch = $1 AND scope = 1 AND lease_until > 1`

	handRuntime = `SELECT key FROM worker_runtimes WHERE key = $1 FOR NO KEY UPDATE`
	handWorker  = `SELECT r.next_event_id, w.transcript_len FROM worker_runtimes AS r
		JOIN workers AS w ON w.runtime = r.key AND w.key = $2 WHERE r.key = $1`
	handEvent = `INSERT INTO worker_events (id, worker, kind, message, recorded_at)
		VALUES ($1, $2, 'worker_input_accepted', 'worker input accepted', 1)`
	handEntry = `INSERT INTO worker_entries (id, role, content, event_id, recorded_at)
		VALUES ($1, 'user', $2, $3, 1)`
	handLog = `UPDATE worker_runtimes
		SET next_event_id = CAST($1 AS BIGINT), next_event_position = CAST($1 AS BIGINT), checksum = NULL
		WHERE key = $2`
	handSaw = `UPDATE workers SET transcript_len = CAST($1 AS BIGINT),
		next_transcript_sequence = CAST($1 AS BIGINT) + 1, last_event_id = $2, last_input_at = 1, checksum = NULL
		WHERE key = $3`
	handListRuns = `SELECT key, run_id, intent, started_at, ended_at, status, turn_count FROM runs
		WHERE scope = 1 AND agent_id = $1 AND started_at IS NOT NULL ORDER BY started_at DESC, run_id LIMIT 50`
	handFindRun = `SELECT key FROM runs WHERE scope = 1 AND agent_id = $1 AND run_id = $2`
	handAddRun  = `INSERT INTO runs (scope, agent_id, run_id, intent, started_at, status, others)
		VALUES (1, $1, $2, 'i', 1, 'in_progress', 0) RETURNING key`
	handAddOwner = `INSERT INTO owners (token, pid, program, registered_at)
		VALUES (decode(md5($1), 'hex'), $2, 'by hand', 1) RETURNING id`
	handRuntimes = `SELECT w.runtime, w.key FROM workers AS w JOIN worker_runtimes AS r ON r.key = w.runtime
		ORDER BY r.runtime_id, w.key`
	handSavepoint = `SAVEPOINT inner_1`
)

// A hand is one process's pool.
type hand struct {
	pool  *sql.DB
	owner int64
	keys  []int64
	pairs [][2]int64 // runtime and worker
}

// byHandOnServer does the work as a careful program would without us.
func byHandOnServer(ctx context.Context, j *job) (doer, func() error, error) {
	address := j.Address + "&search_path=selvedge"
	if strings.Contains(address, ",") { // of several servers the primary
		address += "&target_session_attrs=primary"
	}
	pool, err := sql.Open("pgx", address)
	if err != nil {
		return nil, nil, err
	}
	pool.SetMaxOpenConns(poolOnServer)
	pool.SetMaxIdleConns(poolOnServer)
	h := &hand{pool: pool}
	if err := h.prepare(ctx, j); err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	return h.doer(j), pool.Close, nil
}

// analyze updates the statistics of the server's planner, as autovacuum does within a minute.
func analyze(ctx context.Context, address string) error {
	pool, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	_, err = pool.ExecContext(ctx, "ANALYZE")
	return errors.Join(err, pool.Close())
}

func (h *hand) prepare(ctx context.Context, j *job) error {
	token := fmt.Sprint(j.Round, j.Work, j.Member)
	err := h.pool.QueryRowContext(ctx, handAddOwner, token, os.Getpid()).Scan(&h.owner)
	for c := range j.Callers {
		if err != nil {
			return err
		}
		var key int64
		switch {
		case j.Work == "append":
			err = h.pool.QueryRowContext(ctx, handAddRun, agent, j.ownRun(c)).Scan(&key)
		case j.appends():
			err = h.pool.QueryRowContext(ctx, handFindRun, agent, j.ownRun(c)).Scan(&key)
		case j.Work == "heartbeat":
			thread := runName(j.Round, j.Member, c)
			if err = h.pool.QueryRowContext(ctx, handAgent, sessionOf(thread), thread).Scan(&key); err == nil {
				err = h.pool.QueryRowContext(ctx, handLease, thread, key, h.owner).Scan(&key)
			}
		}
		h.keys = append(h.keys, key)
	}
	if err != nil || j.Work != "input" {
		return err
	}
	rows, err := h.pool.QueryContext(ctx, handRuntimes)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		var pair [2]int64
		if err := rows.Scan(&pair[0], &pair[1]); err != nil {
			return err
		}
		h.pairs = append(h.pairs, pair)
	}
	return rows.Err()
}

// sessionOf is an agent's id, which has no other signs than these.
func sessionOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, name)
}

// within runs fn between BEGIN and COMMIT.
func (h *hand) within(ctx context.Context, fn func(*sql.Conn) error) error {
	c, err := h.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // goes back to the pool
	if _, err := c.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := fn(c); err != nil {
		_, undone := c.ExecContext(ctx, "ROLLBACK")
		return errors.Join(err, undone)
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	return err
}

func (h *hand) doer(j *job) doer {
	big := turn(0, turnBytes) // the same bytes as through us
	return func(ctx context.Context, caller, i int) (won bool, err error) {
		switch j.Work {
		case "claim":
			err = h.within(ctx, func(c *sql.Conn) error { won, err = h.claim(ctx, c, j.thing(i-1)); return err })
			return won, err
		case "reserve":
			err = h.within(ctx, func(c *sql.Conn) error {
				won, err = h.reserve(ctx, c, j.thing(i-1), sessionOf(runName(j.Round, j.Member, caller, i)))
				return err
			})
			return won, err
		case "heartbeat":
			return true, h.within(ctx, func(c *sql.Conn) error {
				var epoch int64
				if err := c.QueryRowContext(ctx, handLockLease, h.keys[caller]).Scan(&epoch); err != nil {
					return err
				}
				_, err := c.ExecContext(ctx, handBeat, epoch, time.Now().UnixNano())
				return err
			})
		case "input":
			return true, h.within(ctx, func(c *sql.Conn) error {
				return h.input(ctx, c,
					h.pairs[(i*5+caller*3+j.Member)%len(h.pairs)])
			})
		case "list":
			return true, h.list(ctx)
		}
		return true, h.within(ctx, func(c *sql.Conn) error {
			var key, id int64
			if err := c.QueryRowContext(ctx, handLockRun, h.keys[caller]).Scan(&key); err != nil {
				return err
			}
			return c.QueryRowContext(ctx, handAppend, key, i, *big.Prompt, *big.Tool, []byte(big.Parameters),
				[]byte(big.Output)).Scan(&id)
		})
	}
}

func (h *hand) claim(ctx context.Context, c *sql.Conn, id string) (won bool, err error) {
	var key, epoch int64
	var older *int64
	var document []byte
	err = c.QueryRowContext(ctx, handPaused, id).Scan(&key, &document, &older)
	if err == nil {
		err = c.QueryRowContext(ctx, handClaim, h.owner, key).Scan(&epoch)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (h *hand) reserve(ctx context.Context, c *sql.Conn, thread, session string) (won bool, err error) {
	var holder string
	if err := c.QueryRowContext(ctx, handOnThread, thread).Scan(&holder); !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	if _, err := c.ExecContext(ctx, handSavepoint); err != nil {
		return false, err
	}
	var key, epoch int64
	if err = c.QueryRowContext(ctx, handAgent, session, thread).Scan(&key); err == nil {
		err = c.QueryRowContext(ctx, handReserve, thread, key).Scan(&epoch)
	}
	if err == nil {
		return true, nil
	}
	if !strings.Contains(err.Error(), "23505") {
		return false, err
	}
	if _, err := c.ExecContext(ctx, "ROLLBACK TO inner_1"); err != nil {
		return false, err
	}
	return false, c.QueryRowContext(ctx, handHolder, thread).Scan(&holder)
}

func (h *hand) input(ctx context.Context, c *sql.Conn, to [2]int64) error {
	var key, event, length int64
	if err := c.QueryRowContext(ctx, handRuntime, to[0]).Scan(&key); err != nil {
		return err
	}
	if err := c.QueryRowContext(ctx, handWorker, to[0], to[1]).Scan(&event, &length); err != nil {
		return err
	}
	for _, s := range []struct {
		query string
		args  []any
	}{
		{handLog, []any{event + 1, to[0]}},
		{handEvent, []any{to[0]<<40 | event, to[1]}},
		{handSaw, []any{length + 1, event, to[1]}},
		{handEntry, []any{to[1]<<24 | (length + 1), []byte(input), event}},
	} {
		if _, err := c.ExecContext(ctx, s.query, s.args...); err != nil {
			return err
		}
	}
	return nil
}

func (h *hand) list(ctx context.Context) error {
	rows, err := h.pool.QueryContext(ctx, handListRuns, listAgent)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	n := 0
	for rows.Next() {
		var key, others int64
		var id string
		var intent, status *string
		var begin, end, turns *int64
		_ = others
		if err := rows.Scan(&key, &id, &intent, &begin, &end, &status, &turns); err != nil {
			return err
		}
		n++
	}
	return expect(n, firstPage, rows.Err())
}
