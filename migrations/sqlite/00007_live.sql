-- Live runs: one row a run with what its events sum up to, one row an event.

-- +goose Up
-- The runs, narrow, because every event writes this row anew. Texts that may be long are in live_texts.
-- +goose StatementBegin
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
    places            INTEGER CHECK (places BETWEEN 0 AND 4294967296), -- places given to events so far, where restored events repeat sequences or go back; NULL: an event's place is its sequence, and the next is event_count
    UNIQUE (scope, run_id),
    CHECK (created_at_ms IS NULL OR created_at = 9223372036854775807),
    CHECK (updated_at_ms IS NULL OR updated_at = 9223372036854775807),
    CHECK (event_count_exact IS NULL OR event_count = 9223372036854775807)
) STRICT;
-- +goose StatementEnd

-- The list of a scope, oldest first. Nothing in it changes after the run's birth.
CREATE INDEX live_runs_by_start ON live_runs (scope, created_at, key);

-- What a run says in words.
-- +goose StatementBegin
CREATE TABLE live_texts (
    run         INTEGER NOT NULL PRIMARY KEY REFERENCES live_runs (key) ON DELETE CASCADE, -- the run
    prompt      TEXT    NOT NULL, -- what the run was asked to do; '' until an agent_start fills it in
    result_text TEXT,             -- of the last agent_end that counted; NULL: none did
    error       TEXT,             -- of the last error or failed mark that counted; NULL: none, or an agent_end cleared it
    further     BLOB              -- JSON object with the members of a restored snapshot that this version doesn't know; NULL: none
) STRICT;
-- +goose StatementEnd

-- The events: one row each.
-- +goose StatementBegin
CREATE TABLE live_events (
    id          INTEGER NOT NULL PRIMARY KEY, -- key of the run << 32 | the event's sequence, or its place among the run's events where live_runs.places is set
    sequence    INTEGER,                      -- the event's sequence, clamped to 2^63-1; NULL: the lower half of id
    type        TEXT    NOT NULL,             -- the event's own word, as in agent_start
    recorded_at INTEGER NOT NULL CHECK (recorded_at >= 0), -- Unix nanoseconds, whole milliseconds, clamped to the year 2262
    event       BLOB    NOT NULL,             -- JSON text as it was given
    raw         BLOB                          -- the whole record as JSON where the columns can't give it back: members of later versions, numbers beyond 64 bits with sign; NULL: they can. Where it is set it holds
) STRICT;
-- +goose StatementEnd

-- Where imported runs came from. A run that was replaced since has no row here.
-- +goose StatementBegin
CREATE TABLE live_imports (
    run      INTEGER NOT NULL PRIMARY KEY REFERENCES live_runs (key) ON DELETE CASCADE, -- the run
    source   INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    path     BLOB    NOT NULL,                        -- file below the tree's root, in the bytes of the file system
    position INTEGER NOT NULL CHECK (position >= 0),  -- of the record among those of its file, from 0
    digest   BLOB    NOT NULL CHECK (length(digest) = 32), -- SHA-256 of the record's bytes
    stamp    BLOB    NOT NULL CHECK (length(stamp) = 32),  -- SHA-256 of what the run summed up to when it was imported: another one now means that it was written to since
    text     BLOB                                     -- the record's bytes, where this program would write others; NULL: it would write these. An export writes them while the stamp holds
) STRICT;
-- +goose StatementEnd

-- The runs of a file, and the foreign key.
CREATE INDEX live_imports_by_file ON live_imports (source, path, position);

-- A trigger in place of a foreign key: the events of a run are one range of ids, so no event pays for a reference.
-- +goose StatementBegin
CREATE TRIGGER live_runs_delete_events AFTER DELETE ON live_runs BEGIN
    DELETE FROM live_events WHERE id >= OLD.key << 32 AND id < (OLD.key + 1) << 32;
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE live_imports;
DROP TABLE live_events;
DROP TABLE live_texts;
DROP TABLE live_runs;
