package workers

import (
	"fmt"
	"strings"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Title names a runtime to people.
func (layout) Title(e tree.Entity) string { return fmt.Sprintf("runtime %q", e.Group) }

// Things is the runtime that a folder became.
func (layout) Things(_ *db.Rx, _ tree.Source, row *tree.Row) ([]tree.Thing, error) {
	return tree.OneThing(row), nil
}

// Find looks a runtime up.
func (layout) Find(rx *db.Rx, scope string, e tree.Entity) (tree.Thing, bool, error) {
	row, ok, err := findRuntime(rx, scope, RuntimeID(e.Group))
	return tree.Thing{Entity: e, Row: row.Key}, ok, err
}

// Tables are those of a runtime.
func (layout) Tables() []tree.Table {
	kind := func(kind string) func(map[string]any) string { return func(map[string]any) string { return kind } }
	return []tree.Table{
		{
			Name: "worker_runtimes", Noun: "runtime", Said: "runtime", Kind: kind("runtime"),
			Query: `SELECT r.*, (SELECT name FROM scopes WHERE id = r.scope) AS scope_name FROM worker_runtimes AS r
				WHERE r.key = ?1`,
			Numbers: []string{"key", "scope", "checksum"}, Marks: []string{"created_at", "stopped_at"},
		},
		{
			Name: "workers", Noun: "worker", Said: "worker", Kind: kind("worker"), Key: []string{"worker_id"},
			Query:   `SELECT * FROM workers WHERE runtime = ?1 ORDER BY worker_id`,
			Numbers: []string{"key", "runtime", "checksum"},
			Marks:   []string{"created_at", "last_input_at", "ended_at"},
		},
		{
			Name: "worker_requests", Noun: "request", Key: []string{"worker_id"},
			Query: `SELECT q.*, w.worker_id FROM workers AS w JOIN worker_requests AS q ON q.worker = w.key
				WHERE w.runtime = ?1 ORDER BY w.worker_id`,
			Numbers: []string{"worker", "checksum"},
		},
		{
			Name: "worker_entries", Noun: "entry", Said: "entry", Kind: kind("entry"),
			Query: `SELECT e.*, w.worker_id, e.id & 16777215 AS place FROM workers AS w
				JOIN worker_entries AS e ON e.id > w.key << 24 AND e.id < (w.key + 1) << 24
				WHERE w.runtime = ?1 ORDER BY w.worker_id, e.id`,
			Key: []string{"worker_id", "place"}, Numbers: []string{"id", "checksum"},
			Marks: []string{"recorded_at", "batch"}, Forms: []string{"raw"},
		},
		{
			Name: "worker_events", Noun: "event", Said: "event", Kind: kind("event"), Key: []string{"place"},
			Query:   ofLog("worker_events"),
			Numbers: []string{"id", "worker", "checksum"}, Marks: []string{"recorded_at"}, Forms: []string{"raw"},
		},
		{
			Name: "worker_diagnostics", Noun: "diagnostic", Key: []string{"place"}, Query: ofLog("worker_diagnostics"),
			Numbers: []string{"id", "worker", "checksum"}, Clocks: []string{"recorded_at"}, Forms: []string{"raw"},
			Explains: func(_ string, theirs, _ map[string]any, alike bool) bool {
				code, _ := theirs["code"].(string)
				return alike && strings.HasPrefix(code, "import.")
			},
		},
		{
			Name: "worker_runtime_documents", Noun: "runtime.json", Spare: true,
			Query:   `SELECT * FROM worker_runtime_documents WHERE runtime = ?1`,
			Numbers: []string{"runtime", "checksum"},
		},
		{
			Name: "worker_documents", Noun: "worker.json", Spare: true, Key: []string{"worker_id"},
			Query: `SELECT d.*, w.worker_id FROM workers AS w JOIN worker_documents AS d ON d.worker = w.key
				WHERE w.runtime = ?1 ORDER BY w.worker_id`,
			Numbers: []string{"worker", "checksum"},
		},
	}
}

// ofLog selects the rows of a table that belong to the log of the runtime with the key ?1.
func ofLog(table string) string {
	return `SELECT l.*, l.id & 1099511627775 AS place,
		(SELECT worker_id FROM workers WHERE key = l.worker) AS worker_id FROM ` + table + ` AS l
		WHERE l.id > CAST(?1 AS BIGINT) << 40 AND l.id < (CAST(?1 AS BIGINT) + 1) << 40 ORDER BY l.id`
}
