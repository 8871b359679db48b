-- The worker runtimes: workers, what was said to them, what happened, what is worth knowing.

-- +goose Up
-- One row a runtime: its limits, its counters.
-- +goose StatementBegin
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
    stopped_at           INTEGER,                                  -- Unix nanoseconds; NULL: running, or imported as stopped
    UNIQUE (scope, runtime_id),
    CHECK (stopped_at IS NULL OR status = 'stopped')
) STRICT;
-- +goose StatementEnd

-- One narrow row a worker: what an input changes.
-- +goose StatementBegin
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
    ended_at                 INTEGER,                              -- Unix nanoseconds at which it was stopped or cancelled; NULL: running, or imported as it is
    UNIQUE (runtime, worker_id),
    CHECK (ended_at IS NULL OR status <> 'running')
) STRICT;
-- +goose StatementEnd

-- Those that run, which may be few among many.
CREATE INDEX workers_running ON workers (runtime, worker_id) WHERE status = 'running';

-- What a worker was created with.
-- +goose StatementBegin
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
    mount_refs             BLOB,                                   -- JSON array of {name, reference}; NULL: none
    CHECK ((intent = 'task') = (objective IS NOT NULL)),
    CHECK ((intent = 'role') = (role IS NOT NULL)),
    CHECK (intent <> 'task' OR purpose IS NULL),
    CHECK ((profile = 'runtime_default') = (profile_value IS NULL))
) STRICT;
-- +goose StatementEnd

-- The logs of the runtimes.
-- +goose StatementBegin
CREATE TABLE worker_events (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id & 1099511627775 > 0), -- key of the runtime << 40 | place in its log, growing
    event_id INTEGER,                                              -- id of the event, u64; NULL: the same as its place
    worker   INTEGER,                                              -- key of the worker it is about; NULL: the runtime's own, or of no worker here (see raw)
    kind     TEXT    NOT NULL,                                     -- runtime_started, runtime_stopped, worker_created, worker_input_accepted, worker_stopped, worker_cancelled; other words come from imports
    message  TEXT    NOT NULL,                                     -- for people
    at       INTEGER,                                              -- Unix nanoseconds; NULL: imported
    raw      BLOB,                                                 -- an imported line that the columns would not give back; NULL: they do. Where it is set it holds
    CHECK (raw IS NOT NULL OR kind IN ('runtime_started', 'runtime_stopped', 'worker_created', 'worker_input_accepted', 'worker_stopped', 'worker_cancelled'))
) STRICT;
-- +goose StatementEnd

-- The transcripts of the workers.
-- +goose StatementBegin
CREATE TABLE worker_entries (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id & 16777215 > 0), -- key of the worker << 24 | place in its transcript, from 1 and dense
    sequence INTEGER,                                              -- sequence of the entry, u64; NULL: the same as its place
    role     TEXT    NOT NULL CHECK (role IN ('user', 'system')),  -- who says it
    content  BLOB    NOT NULL,                                     -- UTF-8 text
    event_id INTEGER NOT NULL,                                     -- id of the event that accepted it, u64
    at       INTEGER,                                              -- Unix nanoseconds; NULL: imported
    raw      BLOB                                                  -- an imported line that the columns would not give back; NULL: they do. Where it is set it holds
) STRICT;
-- +goose StatementEnd

-- What is worth knowing about a runtime or a worker.
-- +goose StatementBegin
CREATE TABLE worker_diagnostics (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id & 1099511627775 > 0), -- key of the runtime << 40 | place among its diagnostics, from 1 and dense
    diagnostic_id INTEGER,                                         -- id of the diagnostic, u64; NULL: the same as its place
    severity      TEXT    NOT NULL CHECK (severity IN ('info', 'warning', 'error')), -- how bad it is
    code          TEXT    NOT NULL,                                -- a stable word, such as worker.tools_less; import.… tells what an import could not read
    message       TEXT    NOT NULL,                                -- for people
    worker        INTEGER,                                         -- key of the worker it is about; NULL: the runtime's own, or of no worker here (see raw)
    at            INTEGER,                                         -- Unix nanoseconds; NULL: the original's, which keeps no times
    raw           BLOB                                             -- an imported one that the columns would not give back; NULL: they do. Where it is set it holds
) STRICT;
-- +goose StatementEnd

-- The snapshots of imported runtimes and workers that encoding the columns would not give back.
-- +goose StatementBegin
CREATE TABLE worker_runtime_documents (
    runtime  INTEGER NOT NULL PRIMARY KEY REFERENCES worker_runtimes (key) ON DELETE CASCADE, -- whose runtime.json it is
    document BLOB    NOT NULL                                      -- as it was
) STRICT;
-- +goose StatementEnd

-- The same of workers.
-- +goose StatementBegin
CREATE TABLE worker_documents (
    worker   INTEGER NOT NULL PRIMARY KEY REFERENCES workers (key) ON DELETE CASCADE, -- whose worker.json it is
    document BLOB    NOT NULL                                      -- as it was
) STRICT;
-- +goose StatementEnd

-- Triggers in place of foreign keys: what belongs to a runtime or a worker is one range of ids, so no append pays for a
-- reference.
-- +goose StatementBegin
CREATE TRIGGER worker_runtimes_delete AFTER DELETE ON worker_runtimes BEGIN
    DELETE FROM worker_events WHERE id > OLD.key << 40 AND id < (OLD.key + 1) << 40;
    DELETE FROM worker_diagnostics WHERE id > OLD.key << 40 AND id < (OLD.key + 1) << 40;
END;
-- +goose StatementEnd

-- The same of a worker.
-- +goose StatementBegin
CREATE TRIGGER workers_delete AFTER DELETE ON workers BEGIN
    DELETE FROM worker_entries WHERE id > OLD.key << 24 AND id < (OLD.key + 1) << 24;
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE worker_documents;
DROP TABLE worker_runtime_documents;
DROP TABLE worker_diagnostics;
DROP TABLE worker_entries;
DROP TABLE worker_events;
DROP TABLE worker_requests;
DROP TABLE workers;
DROP TABLE worker_runtimes;
