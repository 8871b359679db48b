package workers

import (
	"fmt"
	"strings"

	"selvedge/db"
	"selvedge/internal/tree"
	pool "selvedge/internal/workers"
)

// Title names a runtime to people.
func (Layout) Title(e tree.Entity) string { return fmt.Sprintf("runtime %q", e.Group) }

// Things is the runtime that a folder became.
func (Layout) Things(_ *db.Rx, _ tree.Source, row *tree.Row) ([]tree.Thing, error) {
	return tree.OneThing(row), nil
}

// Find looks a runtime up.
func (Layout) Find(rx *db.Rx, scope string, e tree.Entity) (tree.Thing, bool, error) {
	key, _, _, ok, err := pool.RowOf(rx, scope, e.Group)
	return tree.Thing{Entity: e, Row: key}, ok, err
}

// Tables are those of a runtime.
func (Layout) Tables() []tree.Table {
	counted := func(kind string) func(map[string]any) string {
		return func(map[string]any) string { return kind }
	}
	return []tree.Table{
		{
			Name: "worker_runtimes", Noun: "runtime", Said: "runtime",
			Query: `SELECT r.*, (SELECT name FROM scopes WHERE id = r.scope) AS scope_name FROM worker_runtimes AS r
				WHERE r.key = ?1`,
			Numbers: []string{"key", "scope", "checksum"}, Marks: []string{"created_at", "stopped_at"},
			Kind: counted("runtime"),
		},
		{
			Name: "workers", Noun: "worker", Said: "worker",
			Query: `SELECT * FROM workers WHERE runtime = ?1 ORDER BY worker_id`, Key: []string{"worker_id"},
			Numbers: []string{"key", "runtime", "checksum"},
			Marks:   []string{"created_at", "last_input_at", "ended_at"},
			Kind:    counted("worker"),
		},
		{
			Name: "worker_requests", Noun: "request",
			Query: `SELECT q.*, w.worker_id FROM workers AS w JOIN worker_requests AS q ON q.worker = w.key
				WHERE w.runtime = ?1 ORDER BY w.worker_id`,
			Key: []string{"worker_id"}, Numbers: []string{"worker", "checksum"},
		},
		{
			Name: "worker_entries", Noun: "entry", Said: "entry",
			Query: `SELECT e.*, w.worker_id, e.id & 16777215 AS place FROM workers AS w
JOIN worker_entries AS e ON e.id > w.key << 24 AND e.id < (w.key + 1) << 24 WHERE w.runtime = ?1
	ORDER BY w.worker_id, e.id`,
			Key: []string{"worker_id", "place"}, Numbers: []string{"id", "checksum"},
			Marks: []string{"recorded_at", "batch"}, Forms: []string{"raw"},
			Kind: counted("entry"),
		},
		{
			Name: "worker_events", Noun: "event", Said: "event",
			Query: `SELECT e.*, e.id & 1099511627775 AS place,
			(SELECT worker_id FROM workers WHERE key = e.worker) AS worker_id
FROM worker_events AS e WHERE e.id > CAST(?1 AS BIGINT) << 40 AND e.id < (CAST(?1 AS BIGINT) + 1) << 40
	ORDER BY e.id`,
			Key: []string{"place"}, Numbers: []string{"id", "worker", "checksum"}, Marks: []string{"recorded_at"},
			Forms: []string{"raw"},
			Kind:  counted("event"),
		},
		{
			Name: "worker_diagnostics", Noun: "diagnostic",
			Query: `SELECT d.*, d.id & 1099511627775 AS place,
			(SELECT worker_id FROM workers WHERE key = d.worker) AS worker_id
FROM worker_diagnostics AS d WHERE d.id > CAST(?1 AS BIGINT) << 40 AND d.id < (CAST(?1 AS BIGINT) + 1) << 40
	ORDER BY d.id`,
			Key: []string{"place"}, Numbers: []string{"id", "worker", "checksum"}, Clocks: []string{"recorded_at"},
			Forms: []string{"raw"},
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
			Name: "worker_documents", Noun: "worker.json", Spare: true,
			Query: `SELECT d.*, w.worker_id FROM workers AS w JOIN worker_documents AS d ON d.worker = w.key
				WHERE w.runtime = ?1 ORDER BY w.worker_id`,
			Key: []string{"worker_id"}, Numbers: []string{"worker", "checksum"},
		},
	}
}
