package maintenance

import (
	"context"

	"selvedge/db"
)

// A ScopeSize is the number and size of the items of a scope.
type ScopeSize struct {
	Name        string `json:"name"`        // of the scope; empty is the default one
	Runs        int64  `json:"runs"`        // run traces
	Live        int64  `json:"live"`        // live runs
	Agents      int64  `json:"agents"`      // agents, those that left the registry among them
	Checkpoints int64  `json:"checkpoints"` // runs that wait or are claimed
	Workers     int64  `json:"workers"`     // workers of all runtimes
	State       int64  `json:"state"`       // values under keys
	// of traces, events, documents, transcripts and values, without what indexes and pages take
	Bytes int64 `json:"bytes"`
}

// The stores record the sizes of their items, except for transcripts, agents, and runs that began
// before schema 10.
const (
	sqlScopeSize = `SELECT s.name,
    (SELECT count(*) FROM runs AS r WHERE r.scope = s.id) AS runs,
    (SELECT count(*) FROM live_runs AS r WHERE r.scope = s.id) AS live,
    (SELECT count(*) FROM agents AS a WHERE a.scope = s.id) AS agents,
    (SELECT count(*) FROM checkpoints AS c WHERE c.scope = s.id) AS checkpoints,
    (SELECT count(*) FROM worker_runtimes AS t JOIN workers AS w ON w.runtime = t.key
    WHERE t.scope = s.id) AS workers,
    (SELECT count(*) FROM state_values AS v WHERE v.scope = s.id) AS state,
    (SELECT coalesce(sum(coalesce(
        (SELECT l.bytes FROM run_records AS l WHERE l.id > r.key << 24 AND l.id < (r.key + 1) << 24
        ORDER BY l.id DESC LIMIT 1),
        (SELECT sum(coalesce(octet_length(l.raw), 0) + coalesce(octet_length(l.prompt), 0)
            + coalesce(octet_length(l.parameters), 0) + coalesce(octet_length(l.output), 0))
        FROM run_records AS l WHERE l.id > r.key << 24 AND l.id < (r.key + 1) << 24), 0)), 0)
    FROM runs AS r WHERE r.scope = s.id)
    + (SELECT coalesce(sum(r.kept_bytes), 0) FROM live_runs AS r WHERE r.scope = s.id)
    + (SELECT coalesce(sum(octet_length(a.document)), 0) FROM agents AS a WHERE a.scope = s.id)
    + (SELECT coalesce(sum(c.size), 0) FROM checkpoints AS c WHERE c.scope = s.id)
    + (SELECT coalesce(sum(octet_length(v.value)), 0) FROM state_values AS v WHERE v.scope = s.id)
    + (SELECT coalesce(sum((SELECT coalesce(sum(octet_length(e.content)), 0) FROM worker_entries AS e
    WHERE e.id >= w.key << 24 AND e.id < (w.key + 1) << 24)), 0)
        FROM worker_runtimes AS t JOIN workers AS w ON w.runtime = t.key WHERE t.scope = s.id) AS bytes
FROM scopes AS s WHERE s.id = ?`
	sqlScopeIDs = `SELECT id FROM scopes ORDER BY name`
)

// Scopes returns every scope of the file with its numbers and size, by name. It counts rows, so its
// cost grows with their number.
func Scopes(ctx context.Context, d *db.DB) (list []ScopeSize, err error) {
	const op = "list scopes"
	var ids []int64
	err = d.Read(ctx, op, func(rx *db.Rx) error {
		ids = nil
		return rx.Select(&ids, sqlScopeIDs)
	})
	for _, id := range ids {
		if err != nil {
			break
		}
		var one ScopeSize
		if err = d.Read(ctx, op, func(rx *db.Rx) error { return rx.Get(&one, sqlScopeSize, id) }); err == nil {
			list = append(list, one)
		}
	}
	return list, err
}
