package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
)

// A byHand is what a careful program does on the same driver without us: one connection that is set
// up right, a table with an index, prepared statements.
type byHand struct {
	pool   *sql.DB
	insert *sql.Stmt
}

// byHandTurns is a table of turns. Its index finds a run's turns in their order, and refuses a turn
// that is there already.
var byHandTurns = []string{
	`CREATE TABLE turns (id INTEGER PRIMARY KEY, run TEXT NOT NULL, number INTEGER NOT NULL,
		line BLOB NOT NULL) STRICT`,
	`CREATE UNIQUE INDEX turns_by_run ON turns (run, number)`,
}

// byHandQueue is a queue in one table, as goqite (github.com/maragudk/goqite) keeps it: ids and
// times of its own making, an index that serves the receiver, and a trigger for the time of the
// last change.
var byHandQueue = []string{
	`CREATE TABLE queued (
		id TEXT PRIMARY KEY DEFAULT ('m_' || lower(hex(randomblob(16)))),
		created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
		updated TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
		queue TEXT NOT NULL, body BLOB NOT NULL, timeout TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
		received INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0) STRICT`,
	`CREATE TRIGGER queued_updated AFTER UPDATE ON queued BEGIN
		UPDATE queued SET updated = strftime('%Y-%m-%dT%H:%M:%fZ') WHERE id = old.id; END`,
	`CREATE INDEX queued_by_turn ON queued (queue, priority DESC, created)`,
}

func openByHand(ctx context.Context, dir string, level db.Synchronous, insert string,
	schema []string,
) (*byHand, error) {
	set := url.Values{"_pragma": {
		"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)",
		fmt.Sprintf("synchronous(%s)", levelName(level)), "wal_autocheckpoint(4000)",
	}, "_txlock": {"immediate"}}
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "by-hand.db")+"?"+set.Encode())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	h := &byHand{pool: pool}
	for _, statement := range schema {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, pool.Close())
		}
	}
	if h.insert, err = pool.PrepareContext(ctx, insert); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return h, nil
}

func levelName(level db.Synchronous) string {
	if level == db.SyncFull {
		return "FULL"
	}
	return "NORMAL"
}

func (h *byHand) close(failed error) error {
	return errors.Join(failed, h.insert.Close(), h.pool.Close())
}

// fill brings the WAL to its working size, as stage.fillWAL does for ours.
func (h *byHand) fill(ctx context.Context, args func(i int) []any) error {
	tx, err := h.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for i := range 20_000 {
		//nolint:sqlclosecheck // the transaction closes it
		if _, err := tx.StmtContext(ctx, h.insert).ExecContext(ctx, args(i)...); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

// byHands measures appends and a save against what a careful program writes by hand on the same driver.
func byHands(ctx context.Context, b *bench) ([]result, error) {
	var list []result
	for _, level := range []db.Synchronous{db.SyncFull, db.SyncNormal} {
		alone, many, err := b.byHandAppends(ctx, level)
		if err != nil {
			return nil, err
		}
		if level == db.SyncFull {
			list = append(list,
				alone.faster("append a 2 KB turn, FULL, 1 caller, calls a second, against a table by hand",
					round.perCall, 1).asRates(alone),
				many.faster("the same, FULL, 64 callers", round.perCall, 4).asRates(many))
			continue
		}
		list = append(list,
			alone.atMost("append a 2 KB turn, NORMAL, 1 caller, p50, against a table by hand", calls(p50), 1.4))
	}
	save, err := b.byHandSave(ctx)
	return append(list, save.atMost("save a 20 KB checkpoint, FULL, against a queue's insert by hand (as "+
		"goqite's)", calls(p50), 1.1)), err
}

func (b *bench) byHandAppends(ctx context.Context, level db.Synchronous) (alone, many duel, err error) {
	s, err := b.stage(ctx, "by-hand", level)
	if err != nil {
		return alone, many, err
	}
	h, err := openByHand(ctx, s.dir, level, `INSERT INTO turns (run, number, line) VALUES (?, ?, ?)`,
		byHandTurns)
	if err != nil {
		return alone, many, s.close(err)
	}
	alone, many, err = s.byHandDuels(ctx, b, h, level)
	return alone, many, s.close(h.close(err))
}

func (s *stage) byHandDuels(ctx context.Context, b *bench, h *byHand, level db.Synchronous) (alone,
	many duel, err error,
) {
	big := turn(0, turnBytes)
	line, err := lines(big)
	if err != nil {
		return alone, many, err
	}
	err = errors.Join(s.fillWAL(ctx), h.fill(ctx, func(i int) []any { return []any{"fill", i, line} }))
	for number := range b.rounds + 1 {
		err = errors.Join(err, s.begin(ctx, runName("alone", number)))
	}
	for c := range callers {
		err = errors.Join(err, s.begin(ctx, runName("caller", c)))
	}
	if err != nil {
		return alone, many, err
	}
	theirs := func(run string, number, i int) error {
		line, err := lines(at(big, i))
		if err == nil {
			_, err = h.insert.ExecContext(ctx, run, number, line)
		}
		return err
	}
	ours := func(run string, i int) error {
		return s.store.AppendTurns(ctx, agent, run,
			[]runs.Turn{at(big, i)})
	}
	n := b.n(5000)
	if level == db.SyncFull {
		n = b.n(1000)
	}
	alone, err = run(b.rounds,
		each(n, func(number, i int) error { return theirs(runName("alone", number), i, i) }),
		each(n, func(number, i int) error { return ours(runName("alone", number), i) }))
	if err != nil || level != db.SyncFull {
		return alone, many, err
	}
	m := b.n(60)
	many, err = run(b.rounds,
		together(callers, m, func(number, c, i int) error { return theirs(runName("caller", c), number*m+i, i) }),
		together(callers, m, func(_, c, i int) error { return ours(runName("caller", c), i) }))
	return alone, many, err
}

// byHandSave measures saving a paused workflow against putting the same bytes into a queue.
func (b *bench) byHandSave(ctx context.Context) (d duel, err error) {
	s, err := b.stage(ctx, "save", db.SyncFull)
	if err != nil {
		return d, err
	}
	h, err := openByHand(ctx, s.dir, db.SyncFull, `INSERT INTO queued (queue, body) VALUES (?, ?) RETURNING id`,
		byHandQueue)
	if err != nil {
		return d, s.close(err)
	}
	small := make([]byte, turnBytes)
	err = errors.Join(s.fillWAL(ctx), h.fill(ctx, func(int) []any { return []any{"fill", small} }))
	if err == nil {
		store := checkpoints.NewStore(s.file, checkpoints.Options{})
		document := func(number, i int) (string, []byte) {
			id := runName(number, i)
			return id, []byte(strings.ReplaceAll(paused, "RUN", id))
		}
		d, err = run(b.rounds,
			each(b.n(300), func(number, i int) error {
				_, body := document(number, i)
				return h.send(ctx, body)
			}),
			each(b.n(300), func(number, i int) error {
				id, body := document(number, i)
				return store.SaveDocument(ctx, id, body)
			}))
	}
	return d, s.close(h.close(err))
}

// send puts a body into the queue, in a transaction as goqite does.
func (h *byHand) send(ctx context.Context, body []byte) error {
	tx, err := h.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var id string
	//nolint:sqlclosecheck // the transaction closes it
	if err := tx.StmtContext(ctx, h.insert).QueryRowContext(ctx, "approvals", body).Scan(&id); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
