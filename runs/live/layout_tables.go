package live

import (
	"fmt"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/internal/usage"
)

// Title returns the name of a run for people. Its group is the scope that it is in.
func (layout) Title(e tree.Entity) string { return fmt.Sprintf("run %q", e.ID) }

// Things returns the runs that a file holds, including those that it holds a copy of.
func (layout) Things(rx *db.Rx, s tree.Source, row *tree.Row) (list []tree.Thing, err error) {
	var runs []struct {
		Key   int64  `db:"key"`
		Scope string `db:"scope"`
		RunID string `db:"run_id"`
	}
	err = rx.Select(&runs, sqlRunsOfFile, s.ID, row.Path)
	for _, r := range runs {
		list = append(list, tree.Thing{Entity: tree.Entity{Group: r.Scope, ID: r.RunID}, Row: r.Key})
	}
	return list, err
}

// Find looks up a run.
func (layout) Find(rx *db.Rx, _ string, e tree.Entity) (tree.Thing, bool, error) {
	ours, ok, err := findImported(rx, e.Group, e.ID)
	return tree.Thing{Entity: e, Row: ours.Key}, ok, err
}

// Tables returns the tables of a run.
func (layout) Tables() []tree.Table {
	return []tree.Table{
		{
			Name: "live_runs", Noun: "run", Said: "run",
			Query: `SELECT r.*, (SELECT name FROM scopes WHERE id = r.scope) AS scope_name FROM live_runs AS r
				WHERE r.key = ?1`,
			Numbers: []string{"key", "scope", "checksum"},
			Marks:   []string{"owner_id", "updated_at", "updated_at_ms", "first_place"},
			Kind:    func(map[string]any) string { return kindRun },
		},
		{
			Name: "live_texts", Noun: "text", Query: `SELECT * FROM live_texts WHERE run = ?1`,
			Numbers: []string{"run", "checksum"},
		},
		{
			Name: "live_events", Noun: "event", Said: "event",
			Query: `SELECT e.*, e.id & 4294967295 AS place FROM live_events AS e
				WHERE e.id >= CAST(?1 AS BIGINT) << 32 AND e.id < (CAST(?1 AS BIGINT) + 1) << 32 ORDER BY e.id`,
			Key: []string{"place"}, Numbers: []string{"id", "checksum"}, Marks: []string{"batch"},
			Forms: []string{"raw"},
			Kind:  func(map[string]any) string { return kindEvent },
		},
		{
			Name: "usage_records", Noun: "row of usage",
			Query: usage.Compared + ` FROM live_runs AS r
	JOIN usage_runs AS w ON w.id = 2 * r.key + 1 JOIN usage_records AS u ON u.usage_run = w.id
WHERE r.key = ?1 ORDER BY u.account, u.sequence`,
			Key: []string{"account", "sequence"},
		},
		{
			Name: "live_imports", Noun: "origin", Own: true,
			Query: `SELECT i.*, (SELECT root FROM import_sources WHERE id = i.source) AS root FROM live_imports AS i
				WHERE i.run = ?1`,
			Numbers: []string{"run", "source", "checksum"},
		},
		{
			Name: "live_copies", Noun: "copy", Own: true,
			Query: `SELECT c.run, c.source, c.path, c.position, c.checksum,
				(SELECT root FROM import_sources WHERE id = c.source) AS root FROM live_copies AS c
				WHERE c.run = ?1 ORDER BY c.path`,
			Key: []string{"path"}, Numbers: []string{"run", "source", "checksum"},
		},
		{
			Name: "live_append_keys", Noun: "key", Own: true,
			Query: `SELECT * FROM live_append_keys WHERE run = ?1 ORDER BY append_key`, Key: []string{"append_key"},
			Numbers: []string{"run", "checksum"},
		},
	}
}
