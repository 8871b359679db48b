package tree

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
)

// A Conflict is a thing that both the old program and this one have changed since it was imported.
// Until a person decides, the thing here stays as it is; a checkpoint can't be claimed.
type Conflict struct {
	ID       int64     `json:"id" db:"id"`
	Scope    string    `json:"scope" db:"scope"`
	Kind     string    `json:"kind" db:"kind"`
	EntityID string    `json:"entity" db:"entity_id"` // the agent, or the run that paused
	Source   string    `json:"source" db:"-"`         // the folder
	File     string    `json:"file" db:"-"`           // relative to the source
	Import   int64     `json:"import" db:"import"`    // the import that found it first: see Journal
	Reason   string    `json:"reason" db:"reason"`    // what the old program did
	FoundAt  time.Time `json:"found_at" db:"-"`
	Decision *Decision `json:"decision" db:"-"` // nil: not decided
}

// A Decision records who decided a conflict, when, and how.
type Decision struct {
	Take    Take      `json:"take"`
	At      time.Time `json:"at"`
	PID     int       `json:"pid"`
	User    string    `json:"user"`
	Program string    `json:"program"`
}

// Take says which version of a thing counts.
type Take string

// The two versions.
const (
	TakeOld  Take = "old"  // the old program's; if that program removed the thing, it is removed here too
	TakeOurs Take = "ours" // what is here
)

const (
	conflictColumns = `SELECT c.id, sc.name AS scope, c.scope AS scope_id, c.kind, c.entity_id,
	c.source AS source_id, s.root, c.path, c.import, c.reason, c.found_at, c.decided_at,
	coalesce(c.taken, '') AS taken, coalesce(c.pid, 0) AS pid, coalesce(c."user", '') AS "user",
	coalesce(c.program, '') AS program
FROM import_conflicts AS c JOIN import_sources AS s ON s.id = c.source JOIN scopes AS sc ON sc.id = c.scope `
	sqlOpenConflict = conflictColumns +
		`WHERE c.scope = ? AND c.kind = ? AND c.entity_id = ? AND c.source = ? AND c.decided_at IS NULL`
	sqlContested = `SELECT max(reason) FROM import_conflicts WHERE scope = ? AND kind = ?
		AND entity_id = ? AND decided_at IS NULL`
	sqlOpenConflicts = conflictColumns +
		`WHERE c.scope = ? AND c.decided_at IS NULL AND c.id > ? ORDER BY c.id LIMIT ?`
	sqlOpenOfEntity = conflictColumns +
		`WHERE c.scope = ? AND c.entity_id = ? AND c.decided_at IS NULL ORDER BY c.id LIMIT 20`
	sqlOpenNumbered = conflictColumns + `WHERE c.scope = ? AND c.id = ? AND c.decided_at IS NULL`
	sqlConflict     = conflictColumns + `WHERE c.id = ?`
	sqlConflictsOf  = conflictColumns + `WHERE c.import = ? ORDER BY c.id LIMIT 1000`
	sqlOpenOfSource = conflictColumns +
		`WHERE c.source = ? AND c.decided_at IS NULL AND c.id > ? ORDER BY c.id LIMIT ?`
	sqlAddConflict = `INSERT INTO import_conflicts (scope, kind, entity_id, source, path, import, reason,
		found_at, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlDecideConflict = `UPDATE import_conflicts
		SET decided_at = ?, taken = ?, pid = ?, "user" = ?, program = ?, checksum = ? WHERE id = ?`
)

var checkpointsOf = txn.Checkpoints.Rows(
	`SELECT id FROM checkpoints WHERE scope = ? AND run_id = ? ORDER BY state DESC, id`)

// A conflictRow is a conflict as it is stored.
type conflictRow struct {
	Conflict
	ScopeID  int64  `db:"scope_id"`
	SourceID int64  `db:"source_id"`
	Root     []byte `db:"root"`
	Path     []byte `db:"path"`
	Found    int64  `db:"found_at"`
	Decided  *int64 `db:"decided_at"`
	Taken    Take   `db:"taken"`
	PID      int    `db:"pid"`
	User     string `db:"user"`
	Program  string `db:"program"`
}

func (r *conflictRow) public() (Conflict, error) {
	c := r.Conflict
	c.Source, c.File, c.FoundAt = Shown(string(r.Root)), Shown(string(r.Path)), db.Time(r.Found)
	if r.Decided != nil {
		c.Decision = &Decision{
			Take: r.Taken, At: db.Time(*r.Decided), PID: r.PID, User: r.User, Program: r.Program,
		}
	}
	return c, nil
}

// open finds the open conflict over the thing of that id.
func (s Source) open(rx *db.Rx, id string) (r conflictRow, ok bool, err error) {
	ok, err = rx.Find(&r, sqlOpenConflict, s.Scope, s.kind, id, s.ID)
	return r, ok, err
}

// Contested is the reason of the open conflict over the thing of that id; "" if there is none.
func (s Source) Contested(rx *db.Rx, id string) (reason string, err error) {
	r, _, err := s.open(rx, id)
	return r.Reason, err
}

// Contested returns, by id, the reasons of the open conflicts over things of a kind, from any tree.
// Ids without an open conflict are missing.
func Contested(ctx context.Context, d *db.DB, kind, scope string, ids []string) (reasons map[string]string,
	err error,
) {
	err = d.Read(ctx, "look for conflicts", func(rx *db.Rx) error {
		reasons = map[string]string{}
		number, ok, err := rx.Store().Scope(scope)
		if err != nil || !ok {
			return err
		}
		for _, id := range ids {
			if err := rx.Store().Prefetch(sqlContested, number, kind, id); err != nil {
				return err
			}
		}
		for _, id := range ids {
			var reason *string
			if err := rx.Get(&reason, sqlContested, number, kind, id); err != nil {
				return err
			}
			if reason != nil {
				reasons[id] = *reason
			}
		}
		return nil
	})
	return reasons, err
}

// Contest adds a conflict over the thing of that id, unless one is open.
func (t *Tree) Contest(tx *db.Tx, path, id, reason string) error {
	if t.Source.kind == "checkpoints" { // lock the rows first, as a claim does
		if err := tx.Store().WillChange(checkpointsOf, t.Source.Scope, id); err != nil {
			return err
		}
	}
	t.Contests = true
	open, err := t.Source.Contested(&tx.Rx, id)
	if err != nil || open != "" {
		return err
	}
	at := db.Nanos(tx.Now())
	columns := []any{t.Source.Scope, t.Source.kind, id, t.Source.ID, []byte(path), t.entry.id, reason, at}
	sum := txn.Checksum(append(columns, nil, nil, nil, nil, nil)...)
	_, err = tx.Exec(sqlAddConflict, append(columns, sum)...)
	return err
}

// Settle closes the open conflict over the thing of that id, if there is one, with the decision
// take.
func (t *Tree) Settle(tx *db.Tx, id string, take Take) error {
	r, ok, err := t.Source.open(&tx.Rx, id)
	if err != nil || !ok {
		return err
	}
	at := db.Nanos(tx.Now())
	pid, user, program := t.Options.who()
	sum := txn.Checksum(t.Source.Scope, r.Kind, r.EntityID, r.SourceID, r.Path, r.Import, r.Reason, r.Found, at,
		string(take), pid, user, program)
	_, err = tx.Exec(sqlDecideConflict, at, string(take), pid, user, program, sum, r.ID)
	return err
}

// Conflicts lists the open conflicts of a scope, oldest first.
func Conflicts(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[Conflict], error) {
	return page(ctx, d, "conflicts", scope, at, 0, sqlOpenConflicts, (*conflictRow).public,
		func(c *Conflict) (int64, int) { return c.ID, 300 + len(c.Source) + len(c.Reason) })
}

// ConflictsOf lists the conflicts that the import found first, open or decided, at most 1,000.
func ConflictsOf(ctx context.Context, d *db.DB, entry int64) (list []Conflict, err error) {
	err = d.Read(ctx, "list conflicts", func(rx *db.Rx) error {
		list = nil
		for c, err := range txn.Each(rx.Store(), (*conflictRow).public, sqlConflictsOf, entry) {
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	return list, err
}

// findConflict finds an open conflict by its number, or by the id of its agent or paused run.
// db.ErrNotFound: there is none. db.ErrInvalid: there are several, and the hint has their numbers.
func findConflict(rx *db.Rx, scope, name string) (c conflictRow, err error) {
	number, _, err := rx.Store().Scope(scope) // 0 if there is none
	var rows []conflictRow
	if err == nil {
		err = rx.Select(&rows, sqlOpenOfEntity, number, name)
	}
	if n, bad := strconv.ParseInt(name, 10, 64); err == nil && bad == nil && len(rows) == 0 {
		err = rx.Select(&rows, sqlOpenNumbered, number, n)
	}
	if err != nil {
		return c, err
	}
	if len(rows) == 1 {
		return rows[0], nil
	}
	err, hint := db.ErrNotFound, "imports conflicts lists what is to be decided"
	if len(rows) > 1 {
		err, hint = fmt.Errorf("%w: there are %d conflicts over it", db.ErrInvalid, len(rows)),
			"give one of the numbers:"
	}
	for _, c := range rows {
		hint += fmt.Sprintf(" %d (%s, %s)", c.ID, c.Kind, Shown(string(c.Root)))
	}
	return c, &db.Error{Op: "resolve", Entity: "conflict", ID: name, Err: err, Hint: hint}
}

// A Resolver is a Layout whose things can have conflicts.
type Resolver interface {
	// Resolve makes one version of the thing at path count. It reads the folder again. db.ErrNotFound:
	// the old program's version can't be read.
	Resolve(tx *db.Tx, t *Tree, path string, take Take) error
}

// Resolve decides a conflict in one transaction, and returns it with the decision.
func Resolve(ctx context.Context, d *db.DB, layout func(kind string) (Layout, error), name string, take Take,
	o Options,
) (c Conflict, err error) {
	if take != TakeOld && take != TakeOurs {
		err := fmt.Errorf("%w: the version to take is old or ours, not %q", db.ErrInvalid, take)
		return c, &db.Error{Op: "resolve", Entity: "conflict", ID: name, Err: err}
	}
	err = d.Write(ctx, "resolve", func(tx *db.Tx) error {
		r, err := findConflict(&tx.Rx, o.Scope, name)
		if err != nil {
			return err
		}
		l, err := layout(r.Kind)
		if err != nil {
			return err
		}
		root := string(r.Root)
		t := knownTree(d, l, Source{ID: r.SourceID, Scope: r.ScopeID, kind: r.Kind}, root, o)
		t.Folder = Folder{path: root, given: root, follow: o.FollowLinks}
		if err := t.reserve(tx); err != nil { // an import under way may have read what this removes
			return err
		}
		if err := l.(Resolver).Resolve(tx, t, string(r.Path), take); err != nil {
			return err
		}
		if err := errors.Join(t.Settle(tx, r.EntityID, take), t.lease.ReleaseTx(tx)); err != nil {
			return err
		}
		if err := tx.Get(&r, sqlConflict, r.ID); err != nil {
			return err
		}
		c, err = r.public()
		return err
	})
	return c, err
}
