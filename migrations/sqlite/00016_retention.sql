-- How long things are kept: one table of limits for all stores, in place of the one for runs, and what is kept whatever they say.

-- +goose Up
-- The limits of a scope, a row a store; one without limits keeps everything. A store without a row keeps everything too, but for
-- runs: of them the last 50 of each agent and 30 days are kept.
-- +goose StatementBegin
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
-- +goose StatementEnd
-- The foreign key.
CREATE INDEX retention_by_source ON retention (source) WHERE source IS NOT NULL;

-- What no limit takes. A pin is of a name: what comes under it later is pinned too, until the pin is taken away.
-- +goose StatementBegin
CREATE TABLE retention_pins (
    scope     INTEGER NOT NULL REFERENCES scopes (id),       -- the scope of the thing
    store     TEXT    NOT NULL CHECK (store <> ''),          -- the store that keeps it, as in retention
    id        TEXT    NOT NULL,                              -- its id: of a run, a live run, an agent, or a worker; checkpoints: of the run
    owner     TEXT    NOT NULL,                              -- whose it is, where its id alone does not name it: the agent of a run, the runtime of a worker; else ''
    pinned_at INTEGER NOT NULL,                              -- Unix nanoseconds
    checksum  INTEGER,                                       -- CRC-32C of the columns before it; NULL: edited by hand
    PRIMARY KEY (scope, store, id, owner)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- What retention goes through, from the last end on: live runs, agents that were put aside, and workers, whose runtimes say their scope.
CREATE INDEX live_runs_by_end ON live_runs (scope, updated_at, key) WHERE status IN ('completed', 'failed', 'cancelled');
CREATE INDEX agents_aside_by_end ON agents (scope, coalesce(completed_at, started_at)) WHERE status <> 'active' AND put_aside_at IS NOT NULL;
CREATE INDEX workers_ended ON workers (coalesce(ended_at, 0), key) WHERE status <> 'running';

-- Ages that nanoseconds can't hold are no limit; ages below 0 keep no run that has ended, as 0 does.
INSERT INTO retention (scope, store, max_age, max_count, max_bytes, source, set_at)
SELECT scope, 'runs', CASE WHEN max_age_days > 106751 THEN NULL ELSE max(max_age_days, 0) * 86400000000000 END, max_per_agent, NULL, source,
    CAST(strftime('%s', 'now') AS INTEGER) * 1000000000
FROM run_limits;

DROP TABLE run_limits;

-- +goose Down
-- +goose StatementBegin
CREATE TABLE run_limits (
    scope         INTEGER NOT NULL PRIMARY KEY REFERENCES scopes (id), -- the scope whose runs are meant
    source        INTEGER NOT NULL REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree beside whose config.toml this was; another tree of the scope does not change it
    max_per_agent INTEGER NOT NULL CHECK (max_per_agent >= 0),         -- ended runs kept of each agent
    max_age_days  INTEGER NOT NULL                                     -- days that an ended run is kept
) STRICT;
-- +goose StatementEnd
CREATE INDEX run_limits_by_source ON run_limits (source);
INSERT INTO run_limits (scope, source, max_per_agent, max_age_days)
SELECT scope, source, coalesce(max_count, 9223372036854775807), coalesce(max_age / 86400000000000, 106751)
FROM retention WHERE store = 'runs' AND source IS NOT NULL;
DROP INDEX workers_ended;
DROP INDEX agents_aside_by_end;
DROP INDEX live_runs_by_end;
DROP TABLE retention_pins;
DROP TABLE retention;
