package migrations

import "strings"

// A Mending is one repair of a file that holds the rows of a damaged one. All repairs together, in
// their order, restore the file's invariants. A Mending does one of three things: it puts aside the
// rows of Table that Where or Sums selects, runs Statement, or closes the gaps between the places
// of Dense rows.
type Mending struct {
	Table  string
	Where  string
	Reason string // why a row must be put aside, for people
	Lacks  string // table that has lost a row if one is put aside

	// Sums returns, for rows of Table, the integer key, a CRC-32C and the bytes that it covers. A
	// row whose sum is wrong is put aside.
	Sums string

	Statement string

	Dense *Dense
}

// Dense describes rows whose places, from First on, must have no gaps. Place is a column; with
// Shift, the lower Shift bits of the column are the place, and the higher bits identify the group
// of rows. Kept is a column that receives the old place if it is NULL.
type Dense struct {
	Table string
	Place string
	Shift int
	Of    string // column that identifies the group of the place, if Shift is 0
	First int64
	Kept  string
}

// scopesOfAll returns a query for the scopes that rows name. Every table with a scope has it as the
// first column of its checksum.
func scopesOfAll() string {
	var parts []string
	for _, sum := range Checksums {
		if sum.Covered[0] == "scope" {
			parts = append(parts, "SELECT scope FROM "+sum.Table)
		}
	}
	return strings.Join(parts, " UNION ")
}

// Mendings returns the repairs of the last schema version.
func Mendings() []Mending {
	return []Mending{
		{Statement: `INSERT OR IGNORE INTO scopes (id, name) VALUES (1, '')`},
		{Statement: `INSERT OR IGNORE INTO scopes (id, name)
SELECT DISTINCT scope, 'salvaged-' || scope FROM (` + scopesOfAll() + `)
WHERE scope > 0`},

		// A trace whose run is lost names its owner itself. The stores know how to read the rest of
		// what it holds about the run.
		{Statement: `INSERT OR IGNORE INTO runs (key, scope, agent_id, run_id, intent, started_at, status, others)
SELECT run, 1, coalesce(json_extract(started, '$.agent_id'), 'salvaged'),
	coalesce(json_extract(started, '$.run_id'), 'salvaged-' || run),
    coalesce(json_extract(started, '$.intent'), 'salvaged'), began, 'in_progress', others
FROM (
    SELECT id >> 24 AS run, coalesce(min(recorded_at), 0) AS began, sum(kind <> 'turn') AS others,
        max(CASE WHEN kind = 'started' AND json_valid(CAST(raw AS TEXT))
        THEN CAST(raw AS TEXT) END) AS started
    FROM run_records GROUP BY id >> 24)
WHERE run NOT IN (SELECT key FROM runs) AND run NOT IN (SELECT run FROM run_leavings)
	AND run BETWEEN 1 AND 549755813887`},
		{
			Table: "run_records", Where: `id >> 24 NOT IN (SELECT key FROM runs)
				AND id >> 24 NOT IN (SELECT run FROM run_leavings)`,
			Reason: "its run is lost", Lacks: "runs",
		},
		{Dense: &Dense{Table: "run_records", Place: "id", Shift: 24, First: 1}},
		// In a trace with gaps, every total has changed.
		{Statement: `UPDATE run_records SET bytes = NULL WHERE bytes IS NOT NULL`},
		{Statement: `UPDATE runs SET parent = NULL WHERE parent NOT IN (SELECT key FROM runs)`},
		// Epochs may be drawn again if the last leases are lost.
		{Statement: `UPDATE runs SET epoch = NULL WHERE epoch NOT IN (SELECT epoch FROM leases)`},
		{Statement: `UPDATE live_runs SET epoch = NULL WHERE epoch NOT IN (SELECT epoch FROM leases)`},
		{Statement: `UPDATE runs SET
    turn_count = CASE WHEN ended_at IS NOT NULL
    THEN (SELECT count(*) FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24
    AND kind = 'turn') END,
    others = (SELECT count(*) FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24
    AND kind <> 'turn')`},
		{Statement: `INSERT OR IGNORE INTO run_agents (scope, agent_id, ended) SELECT DISTINCT scope, agent_id, 0
			FROM runs`},
		{Statement: `UPDATE run_agents SET ended = (
    SELECT count(*) FROM runs AS r
    WHERE r.scope = run_agents.scope AND r.agent_id = run_agents.agent_id AND r.started_at IS NOT NULL
    AND r.status IN ('completed', 'incomplete'))`},

		{Statement: `DELETE FROM live_leavings WHERE run IN (SELECT key FROM live_runs)`},
		{Statement: `INSERT OR IGNORE INTO live_runs (key, scope, run_id, session_id, status, created_at,
		updated_at, event_count, kept_events, kept_bytes, places, first_place)
SELECT id >> 32, 1, 'salvaged-' || (id >> 32), 'salvaged', 'failed', min(recorded_at), max(recorded_at),
    max(coalesce(sequence, id & 4294967295)) + 1, 0, 0, CASE WHEN max(sequence) IS NOT NULL
    THEN max(id & 4294967295) + 1 END, 0
FROM live_events WHERE id >> 32 NOT IN (SELECT key FROM live_runs)
	AND id >> 32 NOT IN (SELECT run FROM live_leavings)
    AND id >> 32 BETWEEN 1 AND 2147483646 GROUP BY id >> 32`},
		{
			Table: "live_events", Where: `id >> 32 NOT IN (SELECT key FROM live_runs)
				AND id >> 32 NOT IN (SELECT run FROM live_leavings)`,
			Reason: "its run is lost", Lacks: "live_runs",
		},
		{
			Table: "live_events", Where: `(sequence IS NULL) <> (SELECT places IS NULL FROM live_runs
				WHERE key = id >> 32)`,
			Reason: "its run counts its places another way",
		},
		{Statement: `INSERT OR IGNORE INTO live_texts (run, prompt) SELECT key, '' FROM live_runs
			WHERE key NOT IN (SELECT run FROM live_texts)`},
		{Statement: `UPDATE live_runs SET
    places = CASE WHEN places IS NOT NULL
    THEN max(places, coalesce((SELECT max(id) & 4294967295 FROM live_events WHERE id >= key << 32
    AND id < (key + 1) << 32) + 1, 0)) END,
    event_count = max(event_count,
    coalesce((SELECT max(id) & 4294967295 FROM live_events WHERE id >= key << 32
    AND id < (key + 1) << 32) + 1, 0)),
    first_place = coalesce(min(first_place,
    (SELECT min(id) & 4294967295 FROM live_events WHERE id >= key << 32 AND id < (key + 1) << 32)),
    first_place),
    kept_events = (SELECT count(*) FROM live_events WHERE id >= key << 32 AND id < (key + 1) << 32),
    kept_bytes = coalesce((
        SELECT sum(CASE WHEN raw IS NOT NULL THEN length(raw)
            ELSE 38 + length(coalesce(sequence,
            id & 4294967295)) + length(recorded_at / 1000000) + length(event) END)
        FROM live_events WHERE id >= key << 32 AND id < (key + 1) << 32), 0)`},
		{Statement: `DELETE FROM live_scopes WHERE runs < 0 OR scope NOT IN (SELECT id FROM scopes)`},
		{Statement: `INSERT OR IGNORE INTO live_scopes (scope, runs, removed, oldest) SELECT scope, 0, 0, min(key)
			FROM live_runs GROUP BY scope`},
		{Statement: `UPDATE live_scopes
		SET runs = (SELECT count(*) FROM live_runs AS r WHERE r.scope = live_scopes.scope),
    oldest = coalesce(min(oldest, (SELECT min(key) FROM live_runs AS r WHERE r.scope = live_scopes.scope)),
    oldest)`},

		// A trace with a number that was lost and drawn again has another name.
		{
			Table: "usage_runs", Where: `EXISTS (SELECT 1 FROM runs AS r WHERE r.key = usage_runs.id / 2
				AND usage_runs.agent_id IS NOT NULL AND (usage_runs.scope, usage_runs.run_id, usage_runs.agent_id)
				<> (r.scope, r.run_id, r.agent_id)) OR EXISTS (SELECT 1 FROM live_runs AS r
				WHERE r.key = usage_runs.id / 2 AND usage_runs.session_id IS NOT NULL
				AND (usage_runs.scope, usage_runs.run_id, usage_runs.session_id)
				<> (r.scope, r.run_id, r.session_id))`,
			Reason: "it names another run than the one that it is of",
		},
		{Statement: `DELETE FROM usage_runs WHERE id NOT IN (SELECT usage_run FROM usage_records)`},
		// Numbers of runs whose usage stays are not drawn again.
		{Statement: `INSERT INTO sqlite_sequence (name, seq) SELECT name, 0 FROM (SELECT 'runs' AS name
	UNION SELECT 'live_runs') WHERE name NOT IN (SELECT name FROM sqlite_sequence)`},
		{Statement: `UPDATE sqlite_sequence SET seq = max(seq, coalesce((SELECT max(id / 2) FROM usage_runs
	WHERE (agent_id IS NULL) = (sqlite_sequence.name = 'live_runs')), 0)) WHERE name IN ('runs', 'live_runs')`},

		{
			Table: "agent_reservations",
			Where: `NOT EXISTS (SELECT 1 FROM agents AS a WHERE a.id = agent_reservations.agent_id
			AND a.status = 'active'
    AND a.thread = agent_reservations.thread AND a.scope = agent_reservations.scope)`,
			Reason: "its agent is not there, or not active on the thread",
		},
		{Dense: &Dense{Table: "agent_context_queries", Place: "position", Of: "agent_id"}},

		{
			Table: "checkpoints",
			Where: `size IS NOT (SELECT length(d.document) FROM checkpoint_documents AS d
				WHERE d.checkpoint = checkpoints.id)`,
			Reason: "its document is lost", Lacks: "checkpoint_documents",
		},
		// No checksum covers a key. A row with a wrong key has the document of another row, which
		// may have the same length.
		{
			Table: "checkpoints", Reason: "its document is another's",
			Sums: `SELECT c.id, c.checksum, d.document FROM checkpoints AS c
			JOIN checkpoint_documents AS d ON d.checkpoint = c.id
WHERE c.row_checksum IS NOT NULL AND d.checksum IS NOT NULL`,
		},

		{
			Table: "workers", Where: `key NOT IN (SELECT worker FROM worker_requests)`, Reason: "its request is lost",
			Lacks: "worker_requests",
		},
		{
			Table: "worker_events", Where: `id >> 40 NOT IN (SELECT key FROM worker_runtimes)`,
			Reason: "its runtime is lost", Lacks: "worker_runtimes",
		},
		{
			Table: "worker_diagnostics", Where: `id >> 40 NOT IN (SELECT key FROM worker_runtimes)`,
			Reason: "its runtime is lost", Lacks: "worker_runtimes",
		},
		{
			Table: "worker_entries", Where: `id >> 24 NOT IN (SELECT key FROM workers)`, Reason: "its worker is lost",
			Lacks: "workers",
		},
		{Dense: &Dense{Table: "worker_entries", Place: "id", Shift: 24, First: 1, Kept: "sequence"}},
		{Dense: &Dense{Table: "worker_diagnostics", Place: "id", Shift: 40, First: 1, Kept: "diagnostic_id"}},
		{Statement: `UPDATE workers SET transcript_len = (SELECT count(*) FROM worker_entries WHERE id >= key << 24
			AND id < (key + 1) << 24)`},
		{Statement: `UPDATE worker_runtimes SET
    running_workers = (SELECT count(*) FROM workers AS w WHERE w.runtime = worker_runtimes.key
    AND w.status = 'running'),
    stopped_workers = (SELECT count(*) FROM workers AS w WHERE w.runtime = worker_runtimes.key
    AND w.status = 'stopped'),
    cancelled_workers = (SELECT count(*) FROM workers AS w WHERE w.runtime = worker_runtimes.key
    AND w.status = 'cancelled'),
    diagnostics = (SELECT count(*) FROM worker_diagnostics WHERE id >= key << 40 AND id < (key + 1) << 40)`},

		{Statement: `UPDATE worker_runtimes SET
    next_event_position = max(next_event_position,
    coalesce((SELECT max(id) & 1099511627775 FROM worker_events WHERE id >= key << 40
    AND id < (key + 1) << 40) + 1, 1)),
    first_event_position = min(first_event_position,
    coalesce((SELECT min(id) & 1099511627775 FROM worker_events WHERE id >= key << 40
    AND id < (key + 1) << 40), first_event_position))`},
		{Statement: `UPDATE worker_runtimes SET next_event_position = max(first_event_position,
    coalesce((SELECT max(id) & 1099511627775 FROM worker_events WHERE id >= key << 40
    AND id < (key + 1) << 40) + 1, 1)) WHERE created_at IS NOT NULL`},
		{Statement: `UPDATE worker_runtimes SET events_in_order = 0
WHERE events_in_order = 1 AND (next_event_id <> next_event_position
    OR EXISTS (SELECT 1 FROM worker_events WHERE id >= key << 40 AND id < (key + 1) << 40
    AND event_id IS NOT NULL))`},

		{
			Table: "quarantine",
			Where: `bytes <> coalesce((SELECT sum(length(p.raw)) FROM quarantine_parts AS p
				WHERE p.quarantine = quarantine.id), 0)`,
			Reason: "of its bytes some are lost", Lacks: "quarantine_parts",
		},
		{
			Table: "import_files",
			Where: `state = 'refused' AND NOT EXISTS (
    SELECT 1 FROM quarantine q WHERE q.source = import_files.source AND q.path = import_files.path
    AND q.what = 'conflict'
      AND q.byte_offset = 0 AND q.bytes = import_files.consumed + coalesce(length(import_files.tail), 0))`,
			Reason: "what it was refused for is lost",
		},
		// The file continues after the last line that is here.
		{Statement: `UPDATE import_files SET last_sequence = here FROM (
    SELECT f.source AS of, f.path AS file, coalesce((SELECT max(id) & 16777215 FROM run_records
        WHERE id > r.key << 24 AND id < (r.key + 1) << 24), 0) AS here
    FROM import_files AS f JOIN import_sources AS s ON s.id = f.source JOIN runs AS r ON r.key = f.entity_row
    WHERE s.kind = 'runs' AND f.state = 'taken')
WHERE source = of AND path = file AND last_sequence > here`},
		{
			Table: "import_files",
			Where: `state = 'taken' AND source IN (SELECT id FROM import_sources WHERE kind = 'workers')
	AND instr(', ' || records, ', event ') > 0
	AND CAST(substr(', ' || records, instr(', ' || records, ', event ') + 8) AS INTEGER) > (
    SELECT count(*) FROM worker_events AS e WHERE e.id >= import_files.entity_row << 40
    AND e.id < (import_files.entity_row + 1) << 40)
	AND entity_row IN (SELECT key FROM worker_runtimes WHERE first_event_position = 1)`,
			Reason: "some of its events are lost", Lacks: "worker_events",
		},
	}
}
