-- What the steps make of an empty file, written down by make generate. Edit the steps.

CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);

CREATE TABLE selvedge_file (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id = 1), -- one row
    min_reader    INTEGER NOT NULL,                            -- lowest schema version of a program that may read this file
    min_writer    INTEGER NOT NULL,                            -- lowest schema version of a program that may write it
    views_version INTEGER NOT NULL,                            -- version of the v_ views
    created_at    INTEGER NOT NULL                             -- Unix nanoseconds
, generation INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0), views_digest TEXT NOT NULL DEFAULT '', views TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE scopes (
    id   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the scope, first in every key
    name TEXT    NOT NULL UNIQUE                     -- as the program names it; '' is the default
, checksum INTEGER) STRICT;

CREATE TABLE owners (
    id            INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- also the byte of FILE-owners that the process holds locked while it lives
    token         BLOB    NOT NULL UNIQUE CHECK (length(token) = 16), -- made by the process when it started
    pid           INTEGER NOT NULL,                           -- process id, for people: it can be reused
    boot_id       TEXT,                                       -- of the machine's start; NULL where the system has none
    program       TEXT    NOT NULL,                           -- base name of the executable
    registered_at INTEGER NOT NULL                            -- Unix nanoseconds of the process's first claim in this file
, pid_ns INTEGER, checksum INTEGER) STRICT;

CREATE TABLE runs (
    key             INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT CHECK (key BETWEEN 1 AND 549755813887), -- number of the run in this file, never used again; the upper 39 bits of its records' ids
    scope           INTEGER NOT NULL REFERENCES scopes (id), -- the scope the run belongs to
    agent_id        TEXT    NOT NULL,                        -- agent, as the calls that wrote the run named it
    run_id          TEXT    NOT NULL,                        -- run, as those calls named it
    shown_agent_id  TEXT,                                    -- agent as the last started record names it; NULL: the same as agent_id
    shown_run_id    TEXT,                                    -- run as the last started record names it; NULL: the same as run_id
    intent          TEXT,                                    -- of the last started record; NULL: there is none, and no list, retention or adoption sees the run
    started_at      INTEGER,                                 -- Unix nanoseconds, of the last started record, clamped to 1677-2262; NULL: there is none
    started_at_text TEXT,                                    -- the time as the record has it, where started_at can't hold it (second 60, other years); else NULL
    status          TEXT    NOT NULL CHECK (status IN ('in_progress', 'completed', 'incomplete', 'cancelled', 'cancellation_pending')), -- by the last record that ends the run
    outcome         TEXT CHECK (outcome IN ('success', 'partial_success', 'give_up', 'timeout', 'failure', 'done')), -- of the last end; NULL: none was reported
    ended_at        INTEGER,                                 -- Unix nanoseconds, of the last end, clamped to 1677-2262; NULL: the run is open
    ended_at_text   TEXT,                                    -- the time as the record has it, where ended_at can't hold it; else NULL
    turn_count      INTEGER CHECK (turn_count >= 0),         -- turns in the trace; NULL: the run is open, and it is the last sequence less others
    others          INTEGER NOT NULL CHECK (others >= 0),    -- lines of the trace that are no turns
    owner_id        INTEGER REFERENCES owners (id), summary TEXT, checksum INTEGER, parent INTEGER REFERENCES runs (key) ON DELETE SET NULL, epoch INTEGER, ready_at INTEGER,          -- the process that wrote to the open run last; NULL: ended, or imported and not written to since
    UNIQUE (scope, run_id, agent_id),
    CHECK ((intent IS NULL) = (started_at IS NULL)),
    CHECK (started_at IS NOT NULL OR coalesce(shown_agent_id, shown_run_id, started_at_text) IS NULL),
    CHECK ((ended_at IS NULL) = (status IN ('in_progress', 'cancellation_pending'))),
    CHECK ((turn_count IS NULL) = (ended_at IS NULL)),
    CHECK ((outcome IS NOT NULL) = (status = 'completed')),
    CHECK (ended_at IS NOT NULL OR ended_at_text IS NULL),
    CHECK (ended_at IS NULL OR owner_id IS NULL)
) STRICT;

CREATE INDEX runs_by_agent ON runs (scope, agent_id, started_at DESC, run_id) WHERE started_at IS NOT NULL;

CREATE INDEX runs_by_start ON runs (scope, started_at DESC, run_id, agent_id) WHERE started_at IS NOT NULL;

CREATE INDEX runs_open ON runs (scope, started_at DESC, run_id, agent_id) WHERE status = 'in_progress' AND started_at IS NOT NULL;

CREATE INDEX runs_by_end ON runs (scope, ended_at) WHERE status IN ('completed', 'incomplete') AND started_at IS NOT NULL;

CREATE INDEX runs_by_owner ON runs (owner_id) WHERE owner_id IS NOT NULL;

CREATE TABLE run_agents (
    scope    INTEGER NOT NULL REFERENCES scopes (id), -- the scope of the runs
    agent_id TEXT    NOT NULL,                        -- an agent that wrote a run here, also when retention took the run
    ended    INTEGER NOT NULL CHECK (ended >= 0),     -- its runs that retention counts: completed or incomplete, with a started record
    PRIMARY KEY (scope, agent_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_records (
    id           INTEGER NOT NULL PRIMARY KEY CHECK (id & 16777215 > 0), -- key of the run << 24 | sequence of the line in its trace, from 1 and dense
    kind         TEXT    NOT NULL CHECK (kind = 'turn' OR kind = 'started' OR kind = 'ended' OR kind = 'unknown' OR kind = 'opaque'), -- unknown: a record of a later version; opaque: an imported line that is no record, kept for export
    unknown_kind TEXT,                          -- an unknown record's own word; NULL for the other kinds
    turn_index   INTEGER,                       -- the index that the recorder stamped on the turn, clamped to 2^63-1; NULL: no turn, as in all columns down to policy_param
    prompt       TEXT,                          -- NULL: not recorded
    tool         TEXT,                          -- NULL: not recorded
    parameters   BLOB,                          -- JSON text; NULL: null or absent
    output       BLOB,                          -- JSON text; NULL: null or absent
    cli_kind     TEXT CHECK (cli_kind = 'exited' OR cli_kind = 'killed' OR cli_kind = 'timeout'), -- how the tool's command line ended; NULL: not recorded
    cli_code     INTEGER,                       -- its exit code; NULL: it did not exit by itself
    verdict      TEXT CHECK (verdict = 'not_run' OR verdict = 'pass' OR verdict = 'fail'), -- the verifier's word on the turn; NULL: no turn
    policy_rule  TEXT,                          -- the policy that rejected the turn; NULL: none did
    policy_param TEXT,                          -- the parameter it objected to; NULL: it names none
    raw          BLOB,                          -- the line; NULL: a turn that its columns give back. Where it is set it holds, and the columns are for queries
    exact        INTEGER NOT NULL CHECK (exact IN (0, 1)), batch INTEGER, recorded_at INTEGER, checksum INTEGER, bytes INTEGER, -- 1: an export writes this very line, from raw or the columns; 0: it writes the original's encoding of the record
    CHECK ((kind = 'turn') = (turn_index IS NOT NULL)),
    CHECK ((kind = 'turn') = (verdict IS NOT NULL)),
    CHECK (kind = 'turn' OR raw IS NOT NULL),
    CHECK ((kind = 'unknown') = (unknown_kind IS NOT NULL)),
    CHECK (kind <> 'opaque' OR exact = 1)
) STRICT;

CREATE TABLE run_append_keys (
    run        INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE, -- the run appended to
    append_key TEXT    NOT NULL,                                 -- the caller's key
    digest     BLOB    NOT NULL CHECK (length(digest) = 32), checksum INTEGER,     -- SHA-256 of the lines appended, each with its line feed
    PRIMARY KEY (run, append_key)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER runs_count_insert AFTER INSERT ON runs BEGIN
    INSERT INTO run_agents (scope, agent_id, ended) VALUES (NEW.scope, NEW.agent_id, 0) ON CONFLICT DO NOTHING;
    UPDATE run_agents SET ended = ended + 1
    WHERE NEW.started_at IS NOT NULL AND NEW.status IN ('completed', 'incomplete')
      AND scope = NEW.scope AND agent_id = NEW.agent_id;
END;

CREATE TRIGGER runs_count_update AFTER UPDATE OF status, started_at ON runs
WHEN (NEW.started_at IS NOT NULL AND NEW.status IN ('completed', 'incomplete'))
  <> (OLD.started_at IS NOT NULL AND OLD.status IN ('completed', 'incomplete')) BEGIN
    UPDATE run_agents
    SET ended = ended + CASE WHEN NEW.started_at IS NOT NULL AND NEW.status IN ('completed', 'incomplete') THEN 1 ELSE -1 END
    WHERE scope = NEW.scope AND agent_id = NEW.agent_id;
END;

CREATE TRIGGER runs_count_delete AFTER DELETE ON runs
WHEN OLD.started_at IS NOT NULL AND OLD.status IN ('completed', 'incomplete') BEGIN
    UPDATE run_agents SET ended = ended - 1 WHERE scope = OLD.scope AND agent_id = OLD.agent_id;
END;

CREATE TABLE import_files (
    source        INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path          BLOB    NOT NULL CHECK (length(path) > 0),  -- path below the root, parts divided by '/', in the bytes of the file system
    state         TEXT    NOT NULL CHECK (state IN ('taken', 'shared', 'refused')), -- taken: its records are here; shared: the same records are here from elsewhere; refused: its id is here from elsewhere with other records, the file is in quarantine
    entity_group  TEXT    NOT NULL,                           -- with entity_id, what the file's records are here, or for a refused file would be. Runs: the agent id
    entity_id     TEXT    NOT NULL,                           -- runs: the run id
    entity_row    INTEGER,                                    -- number of that thing's row in its store (runs.key); NULL: refused
    last_sequence INTEGER NOT NULL CHECK (last_sequence >= 0), -- sequence of the last line written here from this file; a larger one in the store was written since
    size          INTEGER NOT NULL CHECK (size >= consumed),  -- bytes of the file when it was read last
    consumed      INTEGER NOT NULL CHECK (consumed >= 0),     -- bytes that were taken: its whole lines, and a last line without line feed that is a record
    prefix_sha256 BLOB    NOT NULL CHECK (length(prefix_sha256) = 32), -- SHA-256 of the consumed bytes
    open_line     INTEGER NOT NULL CHECK (open_line IN (0, 1)), -- 1: the last consumed line has no line feed yet
    records       TEXT    NOT NULL,                           -- records in the consumed bytes by kind, such as "started 1, turn 22, ended 1"
    imported_at   INTEGER NOT NULL,                           -- Unix nanoseconds when this row last changed
    tail          BLOB CHECK (length(tail) > 0), checksum INTEGER,              -- bytes behind the consumed ones: a torn last line, which may still grow; NULL: none
    PRIMARY KEY (source, path),
    CHECK ((state = 'refused') = (entity_row IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX import_files_by_entity ON import_files (entity_id, entity_group, source);

CREATE TABLE quarantine (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,  -- the number that quarantine show and drop take
    scope        INTEGER NOT NULL REFERENCES scopes (id),     -- the scope of the import
    source       INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path         BLOB    NOT NULL,                            -- file below the tree's root, in the bytes of the file system
    byte_offset  INTEGER NOT NULL CHECK (byte_offset >= 0),   -- where in the file it begins
    what         TEXT    NOT NULL CHECK (what IN ('line', 'tail', 'file', 'conflict', 'name')), -- line: can't be read, also kept in its place; tail: a torn last line; file: can't be opened or read on; conflict: a whole file whose id is here from elsewhere with other content; name: taken, but under another id than its records say
    reason       TEXT    NOT NULL,                            -- what is wrong, for people
    entity_group TEXT,                                        -- with entity_id, whose it is or would be; NULL: not known
    entity_id    TEXT,                                        -- see entity_group; NULL: not known
    bytes        INTEGER NOT NULL CHECK (bytes >= 0),         -- how many bytes are kept, see quarantine_parts
    found_at     INTEGER NOT NULL, checksum INTEGER,                            -- Unix nanoseconds
    UNIQUE (source, path, byte_offset, what)
) STRICT;

CREATE INDEX quarantine_by_scope ON quarantine (scope, id);

CREATE TABLE quarantine_parts (
    quarantine INTEGER NOT NULL REFERENCES quarantine (id) ON DELETE CASCADE, -- the row they belong to
    part       INTEGER NOT NULL CHECK (part >= 0),            -- place among its parts, from 0
    raw        BLOB    NOT NULL CHECK (length(raw) > 0), checksum INTEGER,      -- the bytes as they were
    PRIMARY KEY (quarantine, part)
) STRICT;

CREATE TABLE agent_context_queries (
    agent_id   INTEGER NOT NULL REFERENCES agents (id) ON DELETE CASCADE, -- agents.id of the agent that looked
    position   INTEGER NOT NULL CHECK (position >= 0), -- from 0 and dense, in the order of looking
    path       TEXT    NOT NULL,                       -- file it looked at
    part       TEXT,                                   -- part of the file, such as 'symbol:main'; NULL: the whole
    queried_at INTEGER NOT NULL,                       -- Unix nanoseconds, clamped to 1677-2262
    exact      TEXT, checksum INTEGER,                                   -- the time as text, where queried_at can't hold it; else NULL
    PRIMARY KEY (agent_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_reservations (
    epoch         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- grows with every reservation in this file, never given twice; what a lease's writes must carry
    scope         INTEGER NOT NULL REFERENCES scopes (id),    -- the scope of the thread
    thread        TEXT    NOT NULL,                           -- what is reserved
    agent_id      INTEGER NOT NULL UNIQUE REFERENCES agents (id) ON DELETE CASCADE, -- agents.id of the holder, active and on this thread; the row goes when it no longer is
    reserved_at   INTEGER NOT NULL,                           -- Unix nanoseconds
    heartbeat_at  INTEGER,                                    -- Unix nanoseconds of the lease's last heartbeat, newer than those of agents; NULL: none since agents was written
    lease_ttl     INTEGER CHECK (lease_ttl > 0),              -- nanoseconds that a heartbeat adds; NULL: no lease, and pid and boot_id of the agent tell whether it lives
    lease_until   INTEGER,                                    -- nanoseconds of the machine's boot clock at which the lease ends; NULL: no lease
    lease_boot_id TEXT,                                       -- the machine's start that lease_until counts from; NULL: no lease
    owner_id      INTEGER REFERENCES owners (id),             -- process whose death ends the lease; NULL: no lease, or one that outlives its process
    pid_born_at   INTEGER, lease_time_ns INTEGER, lease_wall_until INTEGER,                                    -- when the agent's pid was started, on a clock of the system's own; another value is another process. NULL: not known
    UNIQUE (scope, thread),
    CHECK ((lease_ttl IS NULL) = (lease_until IS NULL) AND (lease_ttl IS NULL) = (lease_boot_id IS NULL)),
    CHECK (lease_ttl IS NOT NULL OR coalesce(owner_id, pid_born_at, heartbeat_at) IS NULL)
) STRICT;

CREATE INDEX agent_reservations_by_owner ON agent_reservations (owner_id) WHERE owner_id IS NOT NULL;

CREATE TABLE checkpoint_documents (
    checkpoint INTEGER NOT NULL PRIMARY KEY REFERENCES checkpoints (id) ON DELETE CASCADE, -- the row that it belongs to
    document   BLOB    NOT NULL                                                            -- JSON text of the paused workflow, byte for byte as it was saved or imported; one that can't be read may be anything
, checksum INTEGER) STRICT;

CREATE TABLE worker_runtimes (
    key                  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT CHECK (key BETWEEN 1 AND 8388607), -- number of the runtime in this file, never used again; the upper 23 bits of its events' and diagnostics' ids
    scope                INTEGER NOT NULL REFERENCES scopes (id),  -- the scope the runtime belongs to
    runtime_id           TEXT    NOT NULL,                         -- as its callers name it
    display_name         TEXT,                                     -- for people; NULL: none
    status               TEXT    NOT NULL CHECK (status IN ('running', 'stopped')), -- stopped is final
    max_transcript_items INTEGER NOT NULL,                         -- largest page of a transcript; 64 bits without sign, as in all columns marked u64
    max_event_items      INTEGER NOT NULL,                         -- largest page of events; u64
    next_worker_sequence INTEGER NOT NULL,                         -- number in the id of the next worker; never goes back; u64
    next_event_id        INTEGER NOT NULL,                         -- id of the next event; never goes back; u64
    next_diagnostic_id   INTEGER NOT NULL,                         -- id of the next diagnostic; never goes back; u64
    next_event_position  INTEGER NOT NULL CHECK (next_event_position BETWEEN 1 AND 1099511627775), -- place of the next event in the log; the event's id, too, while events_in_order
    first_event_position INTEGER NOT NULL CHECK (first_event_position BETWEEN 1 AND next_event_position), -- events before this place were removed
    events_in_order      INTEGER NOT NULL CHECK (events_in_order IN (0, 1)), -- 0: an imported log whose ids repeat or go back, so that places and ids differ
    running_workers      INTEGER NOT NULL CHECK (running_workers >= 0),   -- number of workers with this status
    stopped_workers      INTEGER NOT NULL CHECK (stopped_workers >= 0),   -- likewise
    cancelled_workers    INTEGER NOT NULL CHECK (cancelled_workers >= 0), -- likewise
    diagnostics          INTEGER NOT NULL CHECK (diagnostics >= 0),       -- number of diagnostics
    created_at           INTEGER,                                  -- Unix nanoseconds; NULL: imported, the original keeps no times
    stopped_at           INTEGER, checksum INTEGER,                                  -- Unix nanoseconds; NULL: running, or imported as stopped
    UNIQUE (scope, runtime_id),
    CHECK (stopped_at IS NULL OR status = 'stopped')
) STRICT;

CREATE TABLE workers (
    key                      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT CHECK (key BETWEEN 1 AND 549755813887), -- number of the worker in this file, never used again; the upper 39 bits of its entries' ids
    runtime                  INTEGER NOT NULL REFERENCES worker_runtimes (key) ON DELETE CASCADE, -- the runtime it belongs to
    worker_id                TEXT    NOT NULL,                     -- worker- and its number in at least 8 hex digits; imported ones as they were
    status                   TEXT    NOT NULL CHECK (status IN ('running', 'stopped', 'cancelled')), -- stopped and cancelled are final
    transcript_len           INTEGER NOT NULL CHECK (transcript_len BETWEEN 0 AND 16777215), -- number of its entries
    next_transcript_sequence INTEGER NOT NULL,                     -- sequence of its next entry; never goes back; u64
    last_event_id            INTEGER NOT NULL,                     -- id of the last event that it caused; u64
    created_at               INTEGER,                              -- Unix nanoseconds; NULL: imported
    last_input_at            INTEGER,                              -- Unix nanoseconds of its last input; NULL: none since it is in this file
    ended_at                 INTEGER, checksum INTEGER,                              -- Unix nanoseconds at which it was stopped or cancelled; NULL: running, or imported as it is
    UNIQUE (runtime, worker_id),
    CHECK (ended_at IS NULL OR status <> 'running')
) STRICT;

CREATE INDEX workers_running ON workers (runtime, worker_id) WHERE status = 'running';

CREATE TABLE worker_requests (
    worker                 INTEGER NOT NULL PRIMARY KEY REFERENCES workers (key) ON DELETE CASCADE, -- whose request it is
    intent                 TEXT    NOT NULL CHECK (intent IN ('assistant', 'task', 'role')), -- what sort of work it is for
    objective              TEXT,                                   -- of a task; NULL for the other intents
    role                   TEXT,                                   -- of a role; NULL for the other intents
    purpose                TEXT,                                   -- of an assistant or a role; NULL: not given
    profile                TEXT    NOT NULL CHECK (profile IN ('runtime_default', 'builtin', 'named')), -- how the profile is selected
    profile_value          TEXT,                                   -- the profile's name; NULL: the runtime's default
    config_bundle          TEXT,                                   -- id of the configuration bundle; NULL: none
    capabilities           INTEGER NOT NULL CHECK (capabilities >= 0), -- number of requested capabilities
    requested_capabilities BLOB,                                   -- JSON array of {name, reason?}; NULL: none
    workspace_refs         BLOB,                                   -- JSON array of {name, reference}; NULL: none
    mount_refs             BLOB, checksum INTEGER,                                   -- JSON array of {name, reference}; NULL: none
    CHECK ((intent = 'task') = (objective IS NOT NULL)),
    CHECK ((intent = 'role') = (role IS NOT NULL)),
    CHECK (intent <> 'task' OR purpose IS NULL),
    CHECK ((profile = 'runtime_default') = (profile_value IS NULL))
) STRICT;

CREATE TABLE worker_events (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id & 1099511627775 > 0), -- key of the runtime << 40 | place in its log, growing
    event_id INTEGER,                                              -- id of the event, u64; NULL: the same as its place
    worker   INTEGER,                                              -- key of the worker it is about; NULL: the runtime's own, or of no worker here (see raw)
    kind     TEXT    NOT NULL,                                     -- runtime_started, runtime_stopped, worker_created, worker_input_accepted, worker_stopped, worker_cancelled; other words come from imports
    message  TEXT    NOT NULL,                                     -- for people
    recorded_at       INTEGER,                                              -- Unix nanoseconds; NULL: imported
    raw      BLOB, checksum INTEGER,                                                 -- an imported line that the columns would not give back; NULL: they do. Where it is set it holds
    CHECK (raw IS NOT NULL OR kind IN ('runtime_started', 'runtime_stopped', 'worker_created', 'worker_input_accepted', 'worker_stopped', 'worker_cancelled'))
) STRICT;

CREATE TABLE worker_entries (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id & 16777215 > 0), -- key of the worker << 24 | place in its transcript, from 1 and dense
    sequence INTEGER,                                              -- sequence of the entry, u64; NULL: the same as its place
    role     TEXT    NOT NULL CHECK (role IN ('user', 'system')),  -- who says it
    content  BLOB    NOT NULL,                                     -- UTF-8 text
    event_id INTEGER NOT NULL,                                     -- id of the event that accepted it, u64
    recorded_at       INTEGER,                                              -- Unix nanoseconds; NULL: imported
    raw      BLOB                                                  -- an imported line that the columns would not give back; NULL: they do. Where it is set it holds
, batch INTEGER, checksum INTEGER) STRICT;

CREATE TABLE worker_diagnostics (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id & 1099511627775 > 0), -- key of the runtime << 40 | place among its diagnostics, from 1 and dense
    diagnostic_id INTEGER,                                         -- id of the diagnostic, u64; NULL: the same as its place
    severity      TEXT    NOT NULL CHECK (severity IN ('info', 'warning', 'error')), -- how bad it is
    code          TEXT    NOT NULL,                                -- a stable word, such as worker.tools_less; import.… tells what an import could not read
    message       TEXT    NOT NULL,                                -- for people
    worker        INTEGER,                                         -- key of the worker it is about; NULL: the runtime's own, or of no worker here (see raw)
    recorded_at            INTEGER,                                         -- Unix nanoseconds; NULL: the original's, which keeps no times
    raw           BLOB                                             -- an imported one that the columns would not give back; NULL: they do. Where it is set it holds
, checksum INTEGER) STRICT;

CREATE TABLE worker_runtime_documents (
    runtime  INTEGER NOT NULL PRIMARY KEY REFERENCES worker_runtimes (key) ON DELETE CASCADE, -- whose runtime.json it is
    document BLOB    NOT NULL                                      -- as it was
, checksum INTEGER) STRICT;

CREATE TABLE worker_documents (
    worker   INTEGER NOT NULL PRIMARY KEY REFERENCES workers (key) ON DELETE CASCADE, -- whose worker.json it is
    document BLOB    NOT NULL                                      -- as it was
, checksum INTEGER) STRICT;

CREATE TRIGGER worker_runtimes_delete AFTER DELETE ON worker_runtimes BEGIN
    DELETE FROM worker_events WHERE id > OLD.key << 40 AND id < (OLD.key + 1) << 40;
    DELETE FROM worker_diagnostics WHERE id > OLD.key << 40 AND id < (OLD.key + 1) << 40;
END;

CREATE TRIGGER workers_delete AFTER DELETE ON workers BEGIN
    DELETE FROM worker_entries WHERE id > OLD.key << 24 AND id < (OLD.key + 1) << 24;
END;

CREATE TABLE live_runs (
    key               INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT CHECK (key BETWEEN 1 AND 2147483646), -- number of the run in this file, never used again; the upper 31 bits of its events' ids
    scope             INTEGER NOT NULL REFERENCES scopes (id), -- the scope the run belongs to
    run_id            TEXT    NOT NULL,                        -- 'run-' and a UUID, or the caller's own
    session_id        TEXT    NOT NULL,                        -- the session that the run belongs to
    status            TEXT    NOT NULL CHECK (status IN ('created', 'planning', 'executing', 'verifying', 'completed', 'failed', 'cancelled')), -- as the events and marks so far make it; cancelled is final
    created_at        INTEGER NOT NULL CHECK (created_at >= 0), -- Unix nanoseconds, whole milliseconds, clamped to the year 2262
    created_at_ms     TEXT,                                    -- Unix milliseconds in decimal where created_at can't hold them; NULL: it can
    updated_at        INTEGER NOT NULL CHECK (updated_at >= 0), -- Unix nanoseconds of the last event or mark, as created_at
    updated_at_ms     TEXT,                                    -- as created_at_ms, for updated_at; NULL: updated_at holds them
    event_count       INTEGER NOT NULL CHECK (event_count >= 0), -- events ever recorded, also those that a cap removed: the next event's sequence; clamped to 2^63-1
    event_count_exact TEXT,                                    -- in decimal where event_count can't hold it; NULL: it can
    kept_events       INTEGER NOT NULL CHECK (kept_events BETWEEN 0 AND event_count), -- events that are still here
    kept_bytes        INTEGER NOT NULL CHECK (kept_bytes >= 0), -- bytes of their records as compact JSON
    places            INTEGER CHECK (places BETWEEN 0 AND 4294967296), first_place INTEGER NOT NULL DEFAULT 0 CHECK (first_place >= 0), owner_id INTEGER REFERENCES owners (id), checksum INTEGER, epoch INTEGER, -- places given to events so far, where restored events repeat sequences or go back; NULL: an event's place is its sequence, and the next is event_count
    UNIQUE (scope, run_id),
    CHECK (created_at_ms IS NULL OR created_at = 9223372036854775807),
    CHECK (updated_at_ms IS NULL OR updated_at = 9223372036854775807),
    CHECK (event_count_exact IS NULL OR event_count = 9223372036854775807)
) STRICT;

CREATE INDEX live_runs_by_start ON live_runs (scope, created_at, key);

CREATE TABLE live_texts (
    run         INTEGER NOT NULL PRIMARY KEY REFERENCES live_runs (key) ON DELETE CASCADE, -- the run
    prompt      TEXT    NOT NULL, -- what the run was asked to do; '' until an agent_start fills it in
    result_text TEXT,             -- of the last agent_end that counted; NULL: none did
    error       TEXT,             -- of the last error or failed mark that counted; NULL: none, or an agent_end cleared it
    further     BLOB              -- JSON object with the members of a restored snapshot that this version doesn't know; NULL: none
, checksum INTEGER) STRICT;

CREATE TABLE live_events (
    id          INTEGER NOT NULL PRIMARY KEY, -- key of the run << 32 | the event's sequence, or its place among the run's events where live_runs.places is set
    sequence    INTEGER,                      -- the event's sequence, clamped to 2^63-1; NULL: the lower half of id
    type        TEXT    NOT NULL,             -- the event's own word, as in agent_start
    recorded_at INTEGER NOT NULL CHECK (recorded_at >= 0), -- Unix nanoseconds, whole milliseconds, clamped to the year 2262
    event       BLOB    NOT NULL,             -- JSON text as it was given
    raw         BLOB                          -- the whole record as JSON where the columns can't give it back: members of later versions, numbers beyond 64 bits with sign; NULL: they can. Where it is set it holds
, batch INTEGER, checksum INTEGER) STRICT;

CREATE TABLE live_imports (
    run      INTEGER NOT NULL PRIMARY KEY REFERENCES live_runs (key) ON DELETE CASCADE, -- the run
    source   INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path     BLOB    NOT NULL,                        -- file below the tree's root, in the bytes of the file system
    position INTEGER NOT NULL CHECK (position >= 0),  -- of the record among those of its file, from 0
    digest   BLOB    NOT NULL CHECK (length(digest) = 32), -- SHA-256 of the record's bytes
    stamp    BLOB    NOT NULL CHECK (length(stamp) = 32),  -- SHA-256 of what the run summed up to when it was imported: another one now means that it was written to since
    text     BLOB                                     -- the record's bytes, where this program would write others; NULL: it would write these. An export writes them while the stamp holds
, checksum INTEGER) STRICT;

CREATE INDEX live_imports_by_file ON live_imports (source, path, position);

CREATE TABLE leases (
    epoch            INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- grows with every reservation in this file, never given twice; what the holder's writes must carry
    scope            INTEGER NOT NULL REFERENCES scopes (id),    -- the scope that the name belongs to
    kind             TEXT    NOT NULL CHECK (kind <> ''),        -- sort of thing, such as 'port'
    name             TEXT    NOT NULL CHECK (name <> ''),        -- which one of that sort
    note             TEXT,                                       -- what the holder wants it for; NULL: not said
    reserved_at      INTEGER NOT NULL,                           -- Unix nanoseconds
    renewed_at       INTEGER NOT NULL,                           -- Unix nanoseconds of the last renewal, or of the reservation
    owner_id         INTEGER REFERENCES owners (id),             -- process whose death ends it; NULL: detached, it outlives its process
    lease_ttl        INTEGER CHECK (lease_ttl > 0),              -- nanoseconds that it lasts from each renewal; NULL: as long as its process lives
    lease_until      INTEGER,                                    -- nanoseconds of the boot clock at which it ends; NULL: no lease_ttl
    lease_boot_id    TEXT,                                       -- the machine's start that lease_until counts from; NULL: no lease_ttl
    lease_time_ns    INTEGER,                                    -- inode of the time namespace that lease_until counts in, 0 where the system has none; NULL: no lease_ttl
    lease_wall_until INTEGER,                                    -- Unix nanoseconds at which it ends by the wall clock, which decides where lease_until can't be compared and there is no owner; NULL: no lease_ttl
    checksum         INTEGER,                                    -- CRC-32C of the columns before it but epoch; NULL: changed by hand
    UNIQUE (scope, kind, name),
    CHECK (owner_id IS NOT NULL OR lease_ttl IS NOT NULL),
    CHECK ((lease_ttl IS NULL) = (lease_until IS NULL) AND (lease_ttl IS NULL) = (lease_boot_id IS NULL)
        AND (lease_ttl IS NULL) = (lease_time_ns IS NULL) AND (lease_ttl IS NULL) = (lease_wall_until IS NULL))
) STRICT;

CREATE INDEX leases_by_owner ON leases (owner_id) WHERE owner_id IS NOT NULL;

CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;

CREATE TABLE run_leavings (
    run INTEGER NOT NULL PRIMARY KEY -- key of a run that is gone, and of whose records some may be left
) STRICT;

CREATE TABLE run_spent_keys (
    scope      INTEGER NOT NULL REFERENCES scopes (id), -- the scope of the run
    run_id     TEXT    NOT NULL,                        -- the run appended to
    agent_id   TEXT    NOT NULL,                        -- its agent
    append_key TEXT    NOT NULL,                        -- the caller's key
    digest     BLOB    NOT NULL CHECK (length(digest) = 32), -- as in run_append_keys
    removed_at INTEGER NOT NULL, checksum INTEGER, run INTEGER,                        -- Unix nanoseconds at which the run was removed
    PRIMARY KEY (scope, run_id, agent_id, append_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_spent_keys_by_time ON run_spent_keys (removed_at);

CREATE TRIGGER runs_delete_records AFTER DELETE ON runs
WHEN NOT EXISTS (SELECT 1 FROM run_leavings WHERE run = OLD.key) BEGIN
    DELETE FROM run_records WHERE id > OLD.key << 24 AND id < (OLD.key + 1) << 24;
END;

CREATE INDEX live_runs_by_session ON live_runs (scope, session_id, created_at, key);

CREATE INDEX live_runs_by_status ON live_runs (scope, status, created_at, key);

CREATE INDEX live_runs_by_owner ON live_runs (owner_id) WHERE owner_id IS NOT NULL;

CREATE TABLE live_append_keys (
    run        INTEGER NOT NULL REFERENCES live_runs (key) ON DELETE CASCADE, -- the run appended to
    append_key TEXT    NOT NULL,                                 -- the caller's key
    sequence   TEXT    NOT NULL,                                 -- of the first event, in decimal: 64 bits without sign
    digest     BLOB    NOT NULL CHECK (length(digest) = 32), checksum INTEGER,     -- SHA-256 of the events, each with a line feed
    PRIMARY KEY (run, append_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE live_scopes (
    scope   INTEGER NOT NULL PRIMARY KEY REFERENCES scopes (id), -- the scope
    runs    INTEGER NOT NULL CHECK (runs >= 0),    -- live runs that are here
    removed INTEGER NOT NULL CHECK (removed >= 0), -- live runs that were here and are not
    oldest  INTEGER NOT NULL CHECK (oldest >= 0)   -- no run of the scope has a lower key
) STRICT;

CREATE TABLE agents (
    id                      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row in this file, never used again
    scope                   INTEGER NOT NULL REFERENCES scopes (id),  -- the scope the agent belongs to
    session_id              TEXT    NOT NULL CHECK (session_id <> '' AND session_id NOT GLOB '*[^a-z0-9-]*'), -- the agent's id
    thread                  TEXT    NOT NULL,                         -- the line of work it writes to
    status                  TEXT    NOT NULL CHECK (status IN ('active', 'abandoned', 'complete', 'merged')), -- every change between them is allowed
    started_at              INTEGER NOT NULL,                         -- Unix nanoseconds, clamped to 1677-2262
    completed_at            INTEGER,                                  -- Unix nanoseconds, clamped; NULL: not ended, or ended without a time
    put_aside_at            INTEGER,                                  -- Unix nanoseconds at which a call met it seven days after its end: gone for every call, kept until gc; NULL: in the registry
    pid                     INTEGER CHECK (pid BETWEEN 0 AND 4294967295), -- process whose death ends the agent; NULL: nobody can tell
    boot_id                 TEXT,                                     -- of the machine's start that pid belongs to; NULL: taken for the present one
    heartbeat_at            INTEGER,                                  -- Unix nanoseconds, clamped; NULL: never. agent_reservations has the heartbeats of a lease
    last_progress_at        INTEGER,                                  -- Unix nanoseconds, clamped; NULL: never
    client_instance_id      TEXT,                                     -- client program; NULL: not given, as in all TEXT columns below
    native_actor_key        TEXT,                                     -- the harness's own name for this actor
    native_parent_actor_key TEXT,                                     -- the native_actor_key of the actor that started it
    native_instance_key     TEXT,                                     -- the harness's own name for its instance
    heddle_session_id       TEXT,                                     -- session of the program that kept the registry
    thread_id               TEXT,                                     -- id of the thread
    liveness_path           TEXT,                                     -- a note; no rule looks at it
    anchor_state            TEXT,                                     -- state the work is anchored to
    anchor_root             TEXT,                                     -- its root
    reservation_token       TEXT,                                     -- a note; never compared
    path                    TEXT,                                     -- worktree
    base_state              TEXT    NOT NULL,                         -- state the work began from
    provider                TEXT,                                     -- of the model
    model                   TEXT,                                     -- model's name
    harness                 TEXT,                                     -- program the agent runs in
    thinking_level          TEXT,                                     -- as the harness names it
    input_tokens            INTEGER,                                  -- count, clamped to 2^63-1; NULL: not counted, as in the four below
    output_tokens           INTEGER,                                  -- count, clamped
    reasoning_tokens        INTEGER,                                  -- count, clamped
    tool_calls              INTEGER,                                  -- count
    cost_micros_usd         INTEGER,                                  -- millionths of a US dollar, clamped
    report_flush_state      TEXT,                                     -- as the harness bridge names it
    attach_precedence       TEXT,                                     -- JSON array of the rules that were tried; NULL: none
    winning_attach_rule     TEXT,                                     -- the rule that won
    probe_source            TEXT,                                     -- where the attach rule got its facts
    probe_confidence        REAL,                                     -- 0 to 1 by custom; NULL: not given, or no number
    attach_reason           TEXT,                                     -- what the agent is for, in words
    exact                   TEXT,                                     -- JSON object: column name to text, of the values that their columns can't hold (other years, second 60, above 2^63-1, nan); NULL: all can
    document                BLOB, pid_ns INTEGER, recorded_at INTEGER, changes INTEGER NOT NULL DEFAULT 1, checksum INTEGER,                                     -- TOML document it was imported from, where writing the columns would give another; NULL: it would not
    CHECK (put_aside_at IS NULL OR status <> 'active')
) STRICT;

CREATE UNIQUE INDEX agents_by_session ON agents (scope, session_id) WHERE put_aside_at IS NULL;

CREATE INDEX agents_by_thread ON agents (scope, thread, session_id) WHERE status = 'active';

CREATE INDEX agents_by_end ON agents (scope, coalesce(completed_at, started_at)) WHERE status <> 'active' AND put_aside_at IS NULL;

CREATE INDEX agents_aside ON agents (scope, put_aside_at) WHERE put_aside_at IS NOT NULL;

CREATE INDEX agents_by_start ON agents (scope, started_at DESC, session_id, status) WHERE put_aside_at IS NULL;

CREATE INDEX agents_by_thread_start ON agents (scope, thread, started_at DESC, session_id) WHERE put_aside_at IS NULL;

CREATE INDEX agents_by_client ON agents (scope, client_instance_id, started_at DESC, session_id)
    WHERE client_instance_id IS NOT NULL AND put_aside_at IS NULL AND status = 'active';

CREATE INDEX agents_by_heddle_session ON agents (scope, heddle_session_id, started_at DESC, session_id)
    WHERE heddle_session_id IS NOT NULL AND put_aside_at IS NULL AND status = 'active';

CREATE INDEX agents_by_actor ON agents (scope, native_actor_key, started_at DESC, session_id)
    WHERE native_actor_key IS NOT NULL AND put_aside_at IS NULL;

CREATE INDEX agents_by_path ON agents (scope, status, started_at DESC, session_id, path, native_instance_key, put_aside_at)
    WHERE path IS NOT NULL AND put_aside_at IS NULL AND status = 'active';

CREATE TABLE checkpoint_history (
    id              INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the entry
    scope           INTEGER NOT NULL REFERENCES scopes (id), -- the scope of the run
    run_id          TEXT    NOT NULL,                        -- the run
    ending          TEXT    NOT NULL CHECK (ending IN ('completed', 'superseded')), -- completed: the run was resumed to its next pause or its end, says its holder; superseded: nobody said so, but it had paused again, and that pause was claimed or waits
    decision        TEXT,                                    -- what was decided, in the words of who completed the claim; NULL: not said
    decided_by      TEXT,                                    -- who decided, in the same words; NULL: not said
    paused_stage_id TEXT,                                    -- approval stage that the run waited at; NULL: its document could not be read
    prompt          TEXT,                                    -- what the person was asked; NULL: as above
    created_at      INTEGER,                                 -- Unix nanoseconds at which the run paused, as in checkpoints; NULL: as above
    created_at_text TEXT,                                    -- that time as the document had it, where created_at could not hold it; else NULL
    saved_at        INTEGER NOT NULL,                        -- Unix nanoseconds of the save or import that brought the document
    size            INTEGER NOT NULL CHECK (size >= 0),      -- bytes that the document had
    claimed_at      INTEGER NOT NULL,                        -- Unix nanoseconds of the claim, or of the import that brought it
    completed_at    INTEGER NOT NULL,                        -- Unix nanoseconds at which the claim was over
    epoch           INTEGER,                                 -- of the claim; NULL: it was imported
    owner_pid       INTEGER,                                 -- id of the process that claimed; NULL: it was imported
    owner_program   TEXT,                                    -- base name of its executable; NULL: it was imported
    checksum        INTEGER                                  -- CRC-32C of the columns before it, id excepted; NULL: edited by hand
, agent_id TEXT) STRICT;

CREATE INDEX checkpoint_history_by_run ON checkpoint_history (scope, run_id, id);

CREATE INDEX checkpoint_history_by_time ON checkpoint_history (scope, completed_at, id);

CREATE TABLE live_copies (
    run      INTEGER NOT NULL REFERENCES live_runs (key) ON DELETE CASCADE,      -- the run
    source   INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE,  -- the tree
    path     BLOB    NOT NULL CHECK (length(path) > 0),                          -- file below the tree's root, in the bytes of the file system
    position INTEGER NOT NULL CHECK (position >= 0),                             -- of the record among those of the file, from 0
    checksum INTEGER,                                                            -- CRC-32C of the columns before it; NULL: changed by hand
    PRIMARY KEY (run, source, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX live_copies_by_file ON live_copies (source, path);

CREATE TABLE imports (
    id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,                          -- number of the import
    source   INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE,   -- the tree
    began_at INTEGER NOT NULL,                                                    -- Unix nanoseconds
    ended_at INTEGER,                                                             -- Unix nanoseconds; NULL: no end was written
    pid      INTEGER NOT NULL,                                                    -- process that imported
    user     TEXT    NOT NULL,                                                    -- name or number of the user whose process it was
    program  TEXT    NOT NULL,                                                    -- name and version of the program
    outcome  TEXT CHECK (outcome IN ('complete', 'partial', 'stopped', 'failed')), -- partial: something was quarantined or differs; stopped: by its caller; failed: see error; NULL: no end was written
    counts   TEXT,                                                                -- JSON: records by kind, as the report of the import says; NULL: no end was written
    files    TEXT,                                                                -- JSON: the report's counts of files; NULL as counts
    error    TEXT,                                                                -- what it failed with; NULL: it did not fail
    checksum INTEGER,                                                             -- CRC-32C of the columns before it but id; NULL: changed by hand
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;

CREATE INDEX imports_by_source ON imports (source, id);

CREATE TABLE retention (
    scope     INTEGER NOT NULL REFERENCES scopes (id),       -- the scope whose things are meant
    store     TEXT    NOT NULL CHECK (store <> ''),          -- the store that keeps them: runs, live, agents (those that were put aside), checkpoints (the claims that are over) or workers
    max_age   INTEGER CHECK (max_age >= 0),                  -- nanoseconds that a thing is kept behind its end; NULL: no limit
    max_count INTEGER CHECK (max_count >= 0),                -- how many that have ended are kept of each agent (runs), session (live), thread (agents), run (checkpoints) or runtime (workers); NULL: no limit
    max_bytes INTEGER CHECK (max_bytes >= 0),                -- bytes that are kept of those that have ended; NULL: no limit
    source    INTEGER REFERENCES import_sources (id) ON DELETE CASCADE, -- tree whose config.toml said so; another tree of the scope does not change it. NULL: a person or program said so
    set_at    INTEGER NOT NULL,                              -- Unix nanoseconds at which the limits were set
    checksum  INTEGER,                                       -- CRC-32C of the columns before it; NULL: from before there were checksums
    PRIMARY KEY (scope, store)
) STRICT, WITHOUT ROWID;

CREATE INDEX retention_by_source ON retention (source) WHERE source IS NOT NULL;

CREATE TABLE retention_pins (
    scope     INTEGER NOT NULL REFERENCES scopes (id),       -- the scope of the thing
    store     TEXT    NOT NULL CHECK (store <> ''),          -- the store that keeps it, as in retention
    id        TEXT    NOT NULL,                              -- its id: of a run, a live run, an agent, or a worker; checkpoints: of the run
    owner     TEXT    NOT NULL,                              -- whose it is, where its id alone does not name it: the agent of a run, the runtime of a worker; else ''
    pinned_at INTEGER NOT NULL,                              -- Unix nanoseconds
    checksum  INTEGER,                                       -- CRC-32C of the columns before it; NULL: edited by hand
    PRIMARY KEY (scope, store, id, owner)
) STRICT, WITHOUT ROWID;

CREATE INDEX live_runs_by_end ON live_runs (scope, updated_at, key) WHERE status IN ('completed', 'failed', 'cancelled');

CREATE INDEX agents_aside_by_end ON agents (scope, coalesce(completed_at, started_at)) WHERE status <> 'active' AND put_aside_at IS NOT NULL;

CREATE INDEX workers_ended ON workers (coalesce(ended_at, 0), key) WHERE status <> 'running';

CREATE TABLE import_settings (
    source   INTEGER NOT NULL PRIMARY KEY REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    raw      BLOB    NOT NULL, -- runs: config.toml as it was when it was imported last; its limits are in retention
    checksum INTEGER           -- CRC-32C of the columns before it; NULL: changed by hand
) STRICT;

CREATE TABLE live_leavings (
    run      INTEGER NOT NULL PRIMARY KEY,  -- number of a live run that is not there, and of which events may be
    owner_id INTEGER REFERENCES owners (id) -- the process that writes them, to add the run when it has; once that is dead they go. NULL: they go
) STRICT;

CREATE INDEX live_leavings_by_owner ON live_leavings (owner_id) WHERE owner_id IS NOT NULL;

CREATE TRIGGER live_runs_delete_events AFTER DELETE ON live_runs
WHEN NOT EXISTS (SELECT 1 FROM live_leavings WHERE run = OLD.key) BEGIN
    DELETE FROM live_events WHERE id >= OLD.key << 32 AND id < (OLD.key + 1) << 32;
END;

CREATE TABLE import_sources (
    id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,      -- number of the tree
    scope    INTEGER NOT NULL REFERENCES scopes (id),         -- the scope that the tree was brought into
    kind     TEXT    NOT NULL CHECK (kind <> ''), -- which old program wrote the tree: runs, agents, checkpoints, workers or live
    root     BLOB    NOT NULL CHECK (length(root) > 0),       -- absolute path of the folder, links resolved, in the bytes of the file system
    first_at INTEGER NOT NULL,                                -- Unix nanoseconds when its first import began
    last_at  INTEGER,                                         -- Unix nanoseconds when an import of it last came to its end; NULL: none did
    checksum INTEGER,                                         -- CRC-32C of the columns before it but id; NULL: not written to since there are checksums
    UNIQUE (scope, kind, root)
) STRICT;

CREATE TABLE import_conflicts (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,                        -- number of the conflict
    scope      INTEGER NOT NULL REFERENCES scopes (id),                           -- the scope of the tree
    kind       TEXT    NOT NULL CHECK (kind <> ''),                                -- the kind of the tree: agents or checkpoints
    entity_id  TEXT    NOT NULL,                                                  -- the agent, or the run that paused
    source     INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path       BLOB    NOT NULL CHECK (length(path) > 0),                         -- its file, or one of them, below the tree's root, in the bytes of the file system
    import     INTEGER NOT NULL REFERENCES imports (id) ON DELETE CASCADE,        -- the import that found it first
    reason     TEXT    NOT NULL,                                                  -- what the old program did, for people
    found_at   INTEGER NOT NULL,                                                  -- Unix nanoseconds
    decided_at INTEGER,                                                           -- Unix nanoseconds; NULL: not decided
    taken      TEXT CHECK (taken IN ('old', 'ours')),                              -- whose was taken; NULL: not decided
    pid        INTEGER,                                                           -- process that decided; NULL: not decided
    user       TEXT,                                                              -- name or number of the user whose process it was; NULL: not decided
    program    TEXT,                                                              -- name and version of the program; NULL: not decided
    checksum   INTEGER,                                                           -- CRC-32C of the columns before it but id; NULL: changed by hand
    CHECK ((decided_at IS NULL) = (taken IS NULL) AND (taken IS NULL) = (pid IS NULL) AND (pid IS NULL) = (user IS NULL) AND (user IS NULL) = (program IS NULL))
) STRICT;

CREATE UNIQUE INDEX import_conflicts_open ON import_conflicts (scope, kind, entity_id, source) WHERE decided_at IS NULL;

CREATE INDEX import_conflicts_by_source ON import_conflicts (source, id);

CREATE INDEX import_conflicts_by_import ON import_conflicts (import, id);

CREATE TABLE moves (
    id        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,       -- number of the move
    token     BLOB    NOT NULL UNIQUE CHECK (length(token) = 16), -- drawn when the move began; both databases have it
    direction TEXT    NOT NULL CHECK (direction IN ('out', 'in')), -- out: what was here went there; in: what is here came from there
    place     TEXT    NOT NULL,                                 -- the other database: path of the file, or address of the server without secrets
    began_at  INTEGER NOT NULL,                                 -- Unix nanoseconds
    ended_at  INTEGER,                                          -- Unix nanoseconds; NULL: it is under way, and nobody may write here
    outcome   TEXT CHECK (outcome IN ('complete', 'abandoned')), -- NULL: it is under way. complete: out of here nobody may write here any more
    moved     INTEGER,                                          -- number of rows that were compared at the end; NULL: it did not come to that
    proof     TEXT,                                             -- SHA-256 in hex of those rows, the same in both databases; NULL: as above
    checksum  INTEGER,                                          -- CRC-32C of the columns before it but id; NULL: its user has changed the row
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK ((moved IS NULL) = (proof IS NULL))
) STRICT;

CREATE TABLE run_steps (
    run        INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,         -- the run
    step_key   TEXT    NOT NULL CHECK (step_key <> ''),                          -- name of the step within its run
    kind       TEXT    NOT NULL CHECK (kind IN ('reply', 'effect', 'question')), -- reply: an answer of a model; effect: a change outside this file; question: to a person
    state      TEXT    NOT NULL CHECK (state IN ('open', 'waiting', 'done', 'given_up')), -- open: an effect under way, or interrupted; waiting: for a person, who answers a question or decides about an effect whose outcome is unknown; given_up: an effect that is not tried again
    tool       TEXT,             -- what performs an effect; NULL: not an effect
    policy     TEXT CHECK (policy IN ('ask', 'retry', 'give_up')), -- what happens when the outcome of an effect is unknown; NULL: not an effect
    prompt     TEXT,             -- what the person is asked; NULL: not a question
    request    BLOB,             -- JSON: the arguments of an effect, the fields of a question; NULL: none
    attempt    INTEGER NOT NULL CHECK (attempt >= 1),                            -- number of the last attempt at an effect; 1 for the other kinds
    epoch      INTEGER NOT NULL, -- of the lease under which the last attempt began
    turn       INTEGER NOT NULL CHECK (turn >= 0),                               -- turns that the run had when the step began
    result     BLOB,             -- JSON: the reply, the result of the effect, the fields of the answer; NULL: none, or not yet
    decision   TEXT,             -- of the person; NULL: nobody decided
    settled_by TEXT,             -- name of the person; NULL: the run settled it, or it is not settled
    error      TEXT,             -- of the last attempt; NULL: none
    created_at INTEGER NOT NULL, -- Unix nanoseconds
    changed_at INTEGER NOT NULL, -- Unix nanoseconds of the last change of this row
    checksum   INTEGER,          -- CRC-32C of the columns before it but run; NULL: changed by hand
    PRIMARY KEY (run, step_key),
    CHECK ((kind = 'effect') = (tool IS NOT NULL) AND (kind = 'effect') = (policy IS NOT NULL)),
    CHECK ((kind = 'question') = (prompt IS NOT NULL)),
    CHECK (kind = 'effect' OR state IN ('waiting', 'done')),
    CHECK (kind <> 'reply' OR state = 'done')
) STRICT, WITHOUT ROWID;

CREATE INDEX run_steps_by_run ON run_steps (run) WHERE state = 'waiting';

CREATE INDEX run_steps_waiting ON run_steps (created_at DESC, run, step_key) WHERE state = 'waiting';

CREATE INDEX runs_failed ON runs (scope, ended_at DESC, key DESC) WHERE status IN ('incomplete', 'cancelled') OR outcome IN ('failure', 'timeout', 'give_up');

CREATE TABLE usage_runs (
    id          INTEGER NOT NULL PRIMARY KEY, -- twice the number of the trace (runs.key), or twice that of the live run (live_runs.key) and 1; it may be gone
    scope       INTEGER NOT NULL,             -- number of the run's scope, as in scopes
    run_id      TEXT    NOT NULL,             -- the run: its traces, and the live run with the same id
    agent_id    TEXT,                         -- of the trace; NULL: a live run
    session_id  TEXT,                         -- of the live run; NULL: a trace
    recorded_at INTEGER,                      -- Unix nanoseconds, of the first record that counted; NULL: imported without it
    checksum    INTEGER,                      -- CRC-32C of the columns before it; NULL: changed by hand, or from before schema 23
    CHECK ((agent_id IS NULL) = (id % 2 = 1)),
    CHECK ((session_id IS NULL) = (id % 2 = 0))
) STRICT;

CREATE INDEX usage_runs_by_run ON usage_runs (run_id, scope, agent_id);

CREATE INDEX usage_runs_by_agent ON usage_runs (agent_id) WHERE agent_id IS NOT NULL;

CREATE INDEX usage_runs_by_session ON usage_runs (session_id) WHERE session_id IS NOT NULL;

CREATE INDEX usage_runs_by_time ON usage_runs (recorded_at);

CREATE TABLE usage_records (
    id                      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row, never used again
    usage_run               INTEGER NOT NULL REFERENCES usage_runs (id) ON DELETE CASCADE, -- the trace or live run
    account                 TEXT    NOT NULL CHECK (account IN ('reply', 'model_turn', 'turn', 'turn_end', 'agent_end')), -- kind of the record; each kind is an account of the same work
    sequence                INTEGER, -- place of the record in the trace, from 1, or in the live run, from 0; NULL: a reply, or its record was lost
    step_key                TEXT,    -- of the reply; NULL: another record
    recorded_at             INTEGER, -- Unix nanoseconds, as the record has it; NULL: imported without it
    provider                TEXT, -- of the model; NULL: not recorded
    request_model           TEXT, -- model that was asked for; NULL: not recorded
    response_model          TEXT, -- model that answered; NULL: not recorded
    input_tokens            INTEGER CHECK (input_tokens >= 0), -- tokens read, those from a cache included; NULL: not counted
    cache_read_input_tokens INTEGER CHECK (cache_read_input_tokens >= 0), -- of these, read from a cache; NULL: not counted
    cache_write_input_tokens INTEGER CHECK (cache_write_input_tokens >= 0), -- of these, written to a cache; NULL: not counted
    output_tokens           INTEGER CHECK (output_tokens >= 0), -- tokens answered; NULL: not counted
    reasoning_output_tokens INTEGER CHECK (reasoning_output_tokens >= 0), -- of these, for reasoning; NULL: not counted
    cost_nanos              INTEGER CHECK (cost_nanos >= 0), -- billionths of a US dollar; NULL: unknown
    checksum                INTEGER, -- CRC-32C of the columns before it but id; NULL: changed by hand, or from before schema 23
    CHECK ((account = 'reply') = (step_key IS NOT NULL)),
    CHECK ((account IN ('turn_end', 'agent_end')) = (usage_run % 2 = 1))
) STRICT;

CREATE INDEX usage_records_by_run ON usage_records (usage_run, account);

CREATE INDEX usage_records_by_time ON usage_records (recorded_at) WHERE recorded_at IS NOT NULL;

CREATE TABLE usage_days (
    id                      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row, never used again
    scope                   INTEGER NOT NULL,                        -- number of the runs' scope, as in scopes
    day                     INTEGER NOT NULL,                        -- Unix nanoseconds at which the day begins, UTC
    agent_id                TEXT    NOT NULL,                        -- of the traces; '': live runs without one
    session_id              TEXT    NOT NULL,                        -- of the live runs; '': they had none, or no agent has its id
    provider                TEXT, -- of the model; NULL: not recorded
    request_model           TEXT, -- model that was asked for; NULL: not recorded
    response_model          TEXT, -- model that answered; NULL: not recorded
    input_tokens            INTEGER CHECK (input_tokens >= 0), -- tokens read, those from a cache included; NULL: not counted
    cache_read_input_tokens INTEGER CHECK (cache_read_input_tokens >= 0), -- of these, read from a cache; NULL: not counted
    cache_write_input_tokens INTEGER CHECK (cache_write_input_tokens >= 0), -- of these, written to a cache; NULL: not counted
    output_tokens           INTEGER CHECK (output_tokens >= 0), -- tokens answered; NULL: not counted
    reasoning_output_tokens INTEGER CHECK (reasoning_output_tokens >= 0), -- of these, for reasoning; NULL: not counted
    cost_nanos              INTEGER CHECK (cost_nanos >= 0), -- billionths of a US dollar; NULL: unknown
    checksum                INTEGER                                  -- CRC-32C of the columns before it but id; NULL: changed by hand
) STRICT;

CREATE INDEX usage_days_by_agent ON usage_days (agent_id, session_id, scope, day);

CREATE INDEX usage_days_by_session ON usage_days (session_id) WHERE session_id <> '';

CREATE INDEX usage_days_by_day ON usage_days (day);

CREATE TABLE state_values (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row in this file, never used again
    scope      INTEGER NOT NULL REFERENCES scopes (id),    -- the scope that the value belongs to
    owner      TEXT    NOT NULL,                           -- whose value it is: a user, an agent, whatever the program names; '': nobody's
    state_key  TEXT    NOT NULL CHECK (state_key <> ''),   -- name of the value, one per owner
    value      TEXT    NOT NULL,                           -- JSON, byte for byte as it was set
    updated_at INTEGER NOT NULL,                           -- Unix nanoseconds of the last write
    changes    INTEGER NOT NULL CHECK (changes >= 1),      -- writes of the value since the row was added
    checksum   INTEGER,                                    -- CRC-32C of scope to updated_at; NULL: changed by hand
    UNIQUE (scope, owner, state_key)
) STRICT;

CREATE INDEX state_values_by_key ON state_values (scope, state_key, owner);

CREATE INDEX state_values_by_age ON state_values (scope, updated_at, id);

CREATE TABLE checkpoints (
    id              INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT CHECK (id BETWEEN 1 AND 549755813887), -- number of the row in this file, never used again; the upper bits of its claims' epochs
    scope           INTEGER NOT NULL REFERENCES scopes (id), -- the scope the run belongs to
    state           TEXT    NOT NULL CHECK (state IN ('paused', 'claimed')), -- paused: waits and can be claimed; claimed: a process resumes the run. The two may stand side by side for a run that paused again
    run_id          TEXT    NOT NULL,                        -- the run, as it was saved; an imported document may name another inside
    paused_stage_id TEXT,                                    -- approval stage the run waits at; NULL: the document can't be read
    prompt          TEXT,                                    -- what the person is asked; NULL: as above
    created_at      INTEGER,                                 -- Unix nanoseconds at which the run paused, by its document, clamped to 1677-2262; NULL: as above
    created_at_text TEXT,                                    -- that time as the document has it, where created_at can't hold it (second 60, other years); else NULL
    saved_at        INTEGER NOT NULL,                        -- Unix nanoseconds of the save or import that brought the document
    size            INTEGER NOT NULL CHECK (size >= 0),      -- bytes of the document
    checksum        INTEGER NOT NULL,                        -- CRC-32C of the document; where it is another, somebody edited the document, and it is read anew at each call
    problem         TEXT,                                    -- why the document can't be read, in the original's words; NULL: it can
    epoch           INTEGER CHECK (epoch >> 24 = id),        -- of the claim, or of the last one while paused: id << 24 | number of the claim on this row, so it grows with every claim on the run. NULL: never claimed in this file
    claimed_at      INTEGER,                                 -- Unix nanoseconds of the claim, or of the import that brought it; NULL: paused
    owner_id        INTEGER REFERENCES owners (id),          -- process that claimed; its death frees the claim. NULL: paused, or imported, and then nobody's
    lease_ttl       INTEGER CHECK (lease_ttl > 0),           -- nanoseconds that the claim, and each renewal, lasts; NULL: as long as its process lives
    lease_until     INTEGER,                                 -- nanoseconds of the machine's boot clock at which the claim may be taken away; NULL: never
    lease_boot_id   TEXT,                                    -- the machine's start that lease_until counts from; NULL: no lease
    lease_time_ns   INTEGER,                                 -- inode of the time namespace that lease_until counts in, 0 where the system has none; NULL: no lease
    lease_wall_until INTEGER,                                -- Unix nanoseconds at which the claim may be taken away by the wall clock; the lock of its process decides before that. NULL: no lease
    changes         INTEGER NOT NULL DEFAULT 1,              -- how often the row was saved, claimed and given back; what followers go by
    row_checksum    INTEGER,                                 -- CRC-32C of scope, run_id, the columns from paused_stage_id to problem, and agent_id; NULL: not saved since there are checksums
    agent_id        TEXT    CHECK (agent_id <> ''),          -- agent that the run belongs to; NULL: the calls name none
    CHECK ((problem IS NULL) = (created_at IS NOT NULL) AND (created_at IS NULL) = (paused_stage_id IS NULL) AND (created_at IS NULL) = (prompt IS NULL)),
    CHECK (created_at IS NOT NULL OR created_at_text IS NULL),
    CHECK ((state = 'claimed') = (claimed_at IS NOT NULL)),
    CHECK (owner_id IS NULL OR state = 'claimed' AND epoch IS NOT NULL),
    CHECK (owner_id IS NOT NULL OR lease_ttl IS NULL),
    CHECK ((lease_ttl IS NULL) = (lease_until IS NULL) AND (lease_ttl IS NULL) = (lease_boot_id IS NULL))
) STRICT;

CREATE UNIQUE INDEX checkpoints_by_run ON checkpoints (scope, run_id, coalesce(agent_id, ''), state);

CREATE INDEX checkpoints_by_owner ON checkpoints (owner_id) WHERE owner_id IS NOT NULL;

CREATE INDEX checkpoints_claimed ON checkpoints (scope, run_id, coalesce(agent_id, '')) WHERE state = 'claimed';

CREATE INDEX runs_ready ON runs (scope, agent_id, ready_at, key) WHERE ready_at IS NOT NULL AND (ended_at IS NULL OR status = 'incomplete' AND ready_at >= ended_at);

INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (1, 0, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (2, 1, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (3, 2, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (4, 3, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (5, 4, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (6, 5, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (7, 6, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (8, 7, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (9, 8, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (10, 9, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (11, 10, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (12, 11, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (13, 12, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (14, 13, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (15, 14, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (16, 15, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (17, 16, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (18, 17, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (19, 18, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (20, 19, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (21, 20, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (22, 21, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (23, 22, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (24, 23, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (25, 24, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (26, 25, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (27, 26, 1, datetime('now'));
INSERT INTO "goose_db_version" (id, version_id, is_applied, tstamp) VALUES (28, 27, 1, datetime('now'));
INSERT INTO "selvedge_file" (id, min_reader, min_writer, views_version, created_at, generation, views_digest, views) VALUES (1, 1, 1, 0, CAST(strftime('%s', 'now') AS INTEGER) * 1000000000, (random() & 0x3fffffffffffffff) | 1, '', '');
INSERT INTO "scopes" (id, name, checksum) VALUES (1, '', 737421180);
