package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"selvedge/db"
)

// A Conflict is a thing that the old program and this one both went on with since it was imported.
// Until somebody decides it stays here as it is, and a checkpoint can't be claimed.
type Conflict struct {
	ID       int64     `json:"id"`
	Scope    string    `json:"scope"`
	Kind     string    `json:"kind"`
	EntityID string    `json:"entity"` // the agent, or the run that paused
	Source   string    `json:"source"` // the folder
	File     string    `json:"file"`   // relative to the source
	Import   int64     `json:"import"` // the import that found it first: see Journal
	Reason   string    `json:"reason"` // what the old program did
	FoundAt  time.Time `json:"found_at"`
	Decision *Decision `json:"decision"` // nil: not decided
}

// A Decision says who decided a conflict, when, and how.
type Decision struct {
	Take    Take      `json:"take"`
	At      time.Time `json:"at"`
	PID     int       `json:"pid"`
	User    string    `json:"user"`
	Program string    `json:"program"`
}

// Take is whose version of a thing counts.
type Take string

// The two versions.
const (
	TakeOld  Take = "old"  // what the old program has made of it; where it is gone there it goes here, too
	TakeOurs Take = "ours" // what is here
)

const (
	conflictColumns = `SELECT c.id, sc.name AS scope, c.kind, c.entity_id, c.source, s.root, c.path, c.import,
	c.reason, c.found_at,
    c.decided_at, coalesce(c.taken, '') AS taken, coalesce(c.pid, 0) AS pid,
    coalesce(c."user", '') AS "user", coalesce(c.program, '') AS program
FROM import_conflicts AS c JOIN import_sources AS s ON s.id = c.source JOIN scopes AS sc ON sc.id = c.scope `
	sqlOpenConflict = `SELECT reason FROM import_conflicts WHERE scope = ? AND kind = ? AND entity_id = ?
		AND source = ? AND decided_at IS NULL`
	sqlContested = `SELECT max(reason) FROM import_conflicts WHERE scope = ? AND kind = ?
		AND entity_id = ? AND decided_at IS NULL`
	sqlOpenConflicts = conflictColumns +
		`WHERE c.scope = ? AND c.decided_at IS NULL AND c.id > ? ORDER BY c.id LIMIT ?`
	sqlOpenOfEntity = conflictColumns +
		`WHERE c.scope = ? AND c.entity_id = ? AND c.decided_at IS NULL ORDER BY c.id LIMIT 20`
	sqlConflict     = conflictColumns + `WHERE c.id = ?`
	sqlConflictsOf  = conflictColumns + `WHERE c.import = ? ORDER BY c.id LIMIT 1000`
	sqlOpenOfSource = conflictColumns +
		`WHERE c.source = ? AND c.decided_at IS NULL AND c.id > ? ORDER BY c.id LIMIT ?`
	sqlLockCheckpoints = `SELECT id FROM checkpoints WHERE scope = ? AND run_id = ? ORDER BY id`
	sqlAddConflict     = `INSERT INTO import_conflicts (scope, kind, entity_id, source, path, import, reason,
		found_at, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlDecideConflict = `UPDATE import_conflicts
		SET decided_at = ?, taken = ?, pid = ?, "user" = ?, program = ?, checksum = ? WHERE id = ?`
	sqlConflictNumber = `SELECT id FROM import_conflicts WHERE scope = ? AND kind = ? AND entity_id = ?
		AND source = ? AND decided_at IS NULL`
)

type conflictRow struct {
	ID        int64  `db:"id"`
	Scope     string `db:"scope"`
	Kind      string `db:"kind"`
	EntityID  string `db:"entity_id"`
	Source    int64  `db:"source"`
	Root      []byte `db:"root"`
	Path      []byte `db:"path"`
	Import    int64  `db:"import"`
	Reason    string `db:"reason"`
	FoundAt   int64  `db:"found_at"`
	DecidedAt *int64 `db:"decided_at"`
	Taken     string `db:"taken"`
	PID       int    `db:"pid"`
	User      string `db:"user"`
	Program   string `db:"program"`
}

func (r *conflictRow) public() Conflict {
	c := Conflict{
		ID: r.ID, Scope: r.Scope, Kind: r.Kind, EntityID: r.EntityID, Source: Shown(string(r.Root)),
		File:   Shown(string(r.Path)),
		Import: r.Import, Reason: r.Reason, FoundAt: db.Time(r.FoundAt),
	}
	if r.DecidedAt != nil {
		c.Decision = &Decision{
			Take: Take(r.Taken), At: db.Time(*r.DecidedAt), PID: r.PID, User: r.User,
			Program: r.Program,
		}
	}
	return c
}

func conflicts(rx *db.Rx, query string, args ...any) (list []Conflict, err error) {
	var rows []conflictRow
	err = rx.Select(&rows, query, args...)
	for i := range rows {
		list = append(list, rows[i].public())
	}
	return list, err
}

// Contested gives the reason of the open conflict over the thing of that id; "" if there is none.
func (s Source) Contested(rx *db.Rx, id string) (reason string, err error) {
	_, err = rx.Find(&reason, sqlOpenConflict, s.Scope, s.kind, id, s.ID)
	return reason, err
}

// contested reports whether there is an open conflict over anything of the source.
func (s Source) contested(rx *db.Rx) (any bool, err error) {
	err = rx.Get(&any, `SELECT EXISTS (SELECT 1 FROM import_conflicts WHERE source = ? AND decided_at IS NULL)`,
		s.ID)
	return any, err
}

// Contested gives the reasons of the open conflicts over the things of those ids, whatever tree
// they came from.
func Contested(ctx context.Context, d *db.DB, kind, scope string, ids []string) (reasons map[string]string,
	err error,
) {
	err = d.Read(ctx, "look for conflicts", func(rx *db.Rx) error {
		reasons = map[string]string{}
		number, ok, err := rx.Scope(scope)
		if err != nil || !ok {
			return err
		}
		for _, id := range ids {
			if err := rx.Prefetch(sqlContested, number, kind, id); err != nil {
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

// Contest notes a conflict over the thing of that id, unless one is open already.
func (t *Tree) Contest(tx *db.Tx, path, id, reason string) error {
	if t.Source.kind == "checkpoints" { // a claim looks for conflicts once it has the rows
		if err := tx.Lock(sqlLockCheckpoints, t.Source.Scope, id); err != nil {
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
	sum := db.Checksum(append(columns, nil, nil, nil, nil, nil)...)
	_, err = tx.Exec(sqlAddConflict, append(columns, sum)...)
	return err
}

// Settle notes whose version of the thing of that id counts, where there is a conflict over it.
func (t *Tree) Settle(tx *db.Tx, id string, take Take) error {
	var number int64
	if ok, err := tx.Find(&number, sqlConflictNumber, t.Source.Scope, t.Source.kind, id,
		t.Source.ID); err != nil || !ok {
		return err
	}
	var r conflictRow
	if err := tx.Get(&r, sqlConflict, number); err != nil {
		return err
	}
	at, pid, user, program := db.Nanos(tx.Now()), os.Getpid(), userName(),
		cmp.Or(t.Options.Program, programName())
	sum := db.Checksum(t.Source.Scope, r.Kind, r.EntityID, r.Source, r.Path, r.Import, r.Reason, r.FoundAt, at,
		string(take), pid, user, program)
	_, err := tx.Exec(sqlDecideConflict, at, string(take), pid, user, program, sum, number)
	return err
}

var openConflicts = numbered[Conflict]{
	name: "conflicts",
	read: func(rx *db.Rx, scope, after int64, limit int) ([]Conflict, error) {
		return conflicts(rx, sqlOpenConflicts, scope, after, limit)
	},
	size:   func(c *Conflict) int { return 300 + len(c.Source) + len(c.Reason) },
	number: func(c *Conflict) int64 { return c.ID },
}

// Conflicts lists what nobody has decided yet in a scope, oldest first.
func Conflicts(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[Conflict], error) {
	return openConflicts.page(ctx, d, scope, at)
}

// ConflictsOf are those that an import was the first to find, decided ones included, at most 1,000.
func ConflictsOf(ctx context.Context, d *db.DB, entry int64) (list []Conflict, err error) {
	err = d.Read(ctx, "list conflicts", func(rx *db.Rx) error {
		list, err = conflicts(rx, sqlConflictsOf, entry)
		return err
	})
	return list, err
}

// findConflict gives the open conflict that a name means: the id of an agent or a paused run, or a
// conflict's number. db.ErrNotFound: there is none. db.ErrInvalid: several are meant, and the error
// gives their numbers.
func findConflict(rx *db.Rx, scope, name string) (c conflictRow, err error) {
	none := func(err error, hint string) error {
		return &db.Error{Op: "resolve", Entity: "conflict", ID: name, Err: err, Hint: hint}
	}
	number, ok, err := rx.Scope(scope)
	if err != nil {
		return c, err
	}
	var rows []conflictRow
	if ok {
		if err := rx.Select(&rows, sqlOpenOfEntity, number, name); err != nil {
			return c, err
		}
		if n, bad := strconv.ParseInt(name, 10, 64); bad == nil && len(rows) == 0 {
			if err := rx.Select(&rows, sqlConflict, n); err != nil {
				return c, err
			}
			rows = slices.DeleteFunc(rows, func(c conflictRow) bool { return c.Scope != scope || c.DecidedAt != nil })
		}
	}
	switch len(rows) {
	case 0:
		return c, none(db.ErrNotFound, "imports conflicts lists what is to be decided")
	case 1:
		return rows[0], nil
	}
	var hint strings.Builder
	hint.WriteString("give one of the numbers:")
	for _, c := range rows {
		fmt.Fprintf(&hint, " %d (%s, %s)", c.ID, c.Kind, Shown(string(c.Root)))
	}
	return c, none(fmt.Errorf("%w: there are %d conflicts over it", db.ErrInvalid, len(rows)), hint.String())
}

// A Resolver is a Layout over whose things there can be conflicts.
type Resolver interface {
	// Resolve takes a version of the thing whose file is at path. It reads the folder again.
	// db.ErrNotFound says that the old program's version can't be read.
	Resolve(tx *db.Tx, t *Tree, path string, take Take) error
}

// Resolve decides a conflict in one transaction, and gives it with the decision.
func Resolve(ctx context.Context, d *db.DB, layout func(kind string) (Layout, error), name string, take Take,
	o Options,
) (c Conflict, err error) {
	if take != TakeOld && take != TakeOurs {
		err := fmt.Errorf("%w: whose version is to be taken, old or ours, not %q", db.ErrInvalid, take)
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
		scope, err := tx.Scope(o.Scope)
		if err != nil {
			return err
		}
		t := &Tree{
			DB: d, Scope: o.Scope, Folder: Folder{path: string(r.Root), given: string(r.Root), follow: o.FollowLinks},
			Root: string(r.Root), Options: o, layout: l,
			Report: newPart(r.Kind, o.Scope, string(r.Root)), Source: Source{ID: r.Source, Scope: scope, kind: r.Kind},
		}
		if err := t.reserve(tx); err != nil { // an import under way may have read what this does away with
			return err
		}
		if err := l.(Resolver).Resolve(tx, t, string(r.Path), take); err != nil {
			return err
		}
		if err := errors.Join(t.Settle(tx, r.EntityID, take), t.lease.ReleaseTx(tx)); err != nil {
			return err
		}
		err = tx.Get(&r, sqlConflict, r.ID)
		c = r.public()
		return err
	})
	return c, err
}
