-- Live runs: what an append needs to be repeatable, what a follower needs to know that something went, and lists by session
-- and status.

-- +goose Up
-- Caps take the oldest events. A cursor before this place has missed some; between restored events there may be gaps that
-- nobody missed.
ALTER TABLE live_runs ADD COLUMN first_place INTEGER NOT NULL DEFAULT 0 CHECK (first_place >= 0); -- events in places below this one were removed by a cap; 0: none was
ALTER TABLE live_events ADD COLUMN batch INTEGER; -- number of the call that recorded the event, by which a repeat of it is known; NULL: not the last of its call, imported, restored, or from before there were such numbers

ALTER TABLE live_runs ADD COLUMN owner_id INTEGER REFERENCES owners (id); -- the process that holds the run by a lease; NULL: nobody does, or detached
ALTER TABLE live_runs ADD COLUMN checksum INTEGER; -- CRC-32C of scope and of the columns from run_id to first_place; NULL: not written to since there are checksums
ALTER TABLE live_texts ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in live_runs
ALTER TABLE live_events ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: from before there were checksums
ALTER TABLE live_imports ADD COLUMN checksum INTEGER; -- CRC-32C of path, digest, stamp and text; NULL: from before there were checksums

UPDATE live_runs SET first_place = coalesce(
    (SELECT min(e.id) & 4294967295 FROM live_events AS e WHERE e.id >= live_runs.key << 32 AND e.id < (live_runs.key + 1) << 32),
    places, event_count)
WHERE kept_events < event_count;

-- The list of a session.
CREATE INDEX live_runs_by_session ON live_runs (scope, session_id, created_at, key);
-- The list of a status. An event that leaves the status alone leaves this index alone.
CREATE INDEX live_runs_by_status ON live_runs (scope, status, created_at, key);

-- The foreign key, and recovery: few are held among many.
CREATE INDEX live_runs_by_owner ON live_runs (owner_id) WHERE owner_id IS NOT NULL;

-- The keys that make an append repeatable, kept as long as the run.
-- +goose StatementBegin
CREATE TABLE live_append_keys (
    run        INTEGER NOT NULL REFERENCES live_runs (key) ON DELETE CASCADE, -- the run appended to
    append_key TEXT    NOT NULL,                                 -- the caller's key
    sequence   TEXT    NOT NULL,                                 -- of the first event, in decimal: 64 bits without sign
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),     -- SHA-256 of the events, each with a line feed
    PRIMARY KEY (run, append_key)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- What is kept of a scope as a whole, so that a cap on runs need not count them and a follower knows that one went unseen.
-- +goose StatementBegin
CREATE TABLE live_scopes (
    scope   INTEGER NOT NULL PRIMARY KEY REFERENCES scopes (id), -- the scope
    runs    INTEGER NOT NULL CHECK (runs >= 0),    -- live runs that are here
    removed INTEGER NOT NULL CHECK (removed >= 0), -- live runs that were here and are not
    oldest  INTEGER NOT NULL CHECK (oldest >= 0)   -- no run of the scope has a lower key
) STRICT;
-- +goose StatementEnd

INSERT INTO live_scopes (scope, runs, removed, oldest)
SELECT scope, count(*), 0, min(key) FROM live_runs GROUP BY scope;

-- +goose Down
DROP TABLE live_scopes;
DROP TABLE live_append_keys;
DROP INDEX live_runs_by_owner;
DROP INDEX live_runs_by_status;
DROP INDEX live_runs_by_session;
ALTER TABLE live_imports DROP COLUMN checksum;
ALTER TABLE live_events DROP COLUMN checksum;
ALTER TABLE live_texts DROP COLUMN checksum;
ALTER TABLE live_runs DROP COLUMN checksum;
ALTER TABLE live_runs DROP COLUMN owner_id;
ALTER TABLE live_events DROP COLUMN batch;
ALTER TABLE live_runs DROP COLUMN first_place;
