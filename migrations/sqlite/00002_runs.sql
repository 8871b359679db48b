-- Run traces: one row a run, one row a line of its trace.

-- +goose Up
-- Runs, each with what its records sum up to, so that lists never read a trace.
-- +goose StatementBegin
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
    owner_id        INTEGER REFERENCES owners (id),          -- the process that wrote to the open run last; NULL: ended, or imported and not written to since
    UNIQUE (scope, run_id, agent_id),
    CHECK ((intent IS NULL) = (started_at IS NULL)),
    CHECK (started_at IS NOT NULL OR coalesce(shown_agent_id, shown_run_id, started_at_text) IS NULL),
    CHECK ((ended_at IS NULL) = (status IN ('in_progress', 'cancellation_pending'))),
    CHECK ((turn_count IS NULL) = (ended_at IS NULL)),
    CHECK ((outcome IS NOT NULL) = (status = 'completed')),
    CHECK (ended_at IS NOT NULL OR ended_at_text IS NULL),
    CHECK (ended_at IS NULL OR owner_id IS NULL)
) STRICT;
-- +goose StatementEnd

-- The list of an agent, newest first, and retention by count, from its other end.
CREATE INDEX runs_by_agent ON runs (scope, agent_id, started_at DESC, run_id) WHERE started_at IS NOT NULL;
-- The list of a whole scope.
CREATE INDEX runs_by_start ON runs (scope, started_at DESC, run_id, agent_id) WHERE started_at IS NOT NULL;
-- Adoption, and lists of open runs, which are few among many.
CREATE INDEX runs_open ON runs (scope, started_at DESC, run_id, agent_id) WHERE status = 'in_progress' AND started_at IS NOT NULL;
-- Retention by age.
CREATE INDEX runs_by_end ON runs (scope, ended_at) WHERE status IN ('completed', 'incomplete') AND started_at IS NOT NULL;
-- The foreign key: only open runs have an owner.
CREATE INDEX runs_by_owner ON runs (owner_id) WHERE owner_id IS NOT NULL;

-- How many ended runs each agent has: retention by count looks only at agents that have too many.
-- +goose StatementBegin
CREATE TABLE run_agents (
    scope    INTEGER NOT NULL REFERENCES scopes (id), -- the scope of the runs
    agent_id TEXT    NOT NULL,                        -- an agent that wrote a run here, also when retention took the run
    ended    INTEGER NOT NULL CHECK (ended >= 0),     -- its runs that retention counts: completed or incomplete, with a started record
    PRIMARY KEY (scope, agent_id)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- The traces: one row a line. An append touches this table alone.
-- No IN in its checks: for a list of more than two, SQLite fills a temporary table at every insert.
-- +goose StatementBegin
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
    exact        INTEGER NOT NULL CHECK (exact IN (0, 1)), -- 1: an export writes this very line, from raw or the columns; 0: it writes the original's encoding of the record
    CHECK ((kind = 'turn') = (turn_index IS NOT NULL)),
    CHECK ((kind = 'turn') = (verdict IS NOT NULL)),
    CHECK (kind = 'turn' OR raw IS NOT NULL),
    CHECK ((kind = 'unknown') = (unknown_kind IS NOT NULL)),
    CHECK (kind <> 'opaque' OR exact = 1)
) STRICT;
-- +goose StatementEnd

-- The keys that make an append repeatable, kept as long as the run.
-- +goose StatementBegin
CREATE TABLE run_append_keys (
    run        INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE, -- the run appended to
    append_key TEXT    NOT NULL,                                 -- the caller's key
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),     -- SHA-256 of the lines appended, each with its line feed
    PRIMARY KEY (run, append_key)
) STRICT, WITHOUT ROWID;
-- +goose StatementEnd

-- A trigger in place of a foreign key: the records of a run are one range of ids, so no append pays for a reference.
-- +goose StatementBegin
CREATE TRIGGER runs_delete_records AFTER DELETE ON runs BEGIN
    DELETE FROM run_records WHERE id > OLD.key << 24 AND id < (OLD.key + 1) << 24;
END;
-- +goose StatementEnd

-- Three triggers keep run_agents.ended. This one: a run that is new.
-- +goose StatementBegin
CREATE TRIGGER runs_count_insert AFTER INSERT ON runs BEGIN
    INSERT INTO run_agents (scope, agent_id, ended) VALUES (NEW.scope, NEW.agent_id, 0) ON CONFLICT DO NOTHING;
    UPDATE run_agents SET ended = ended + 1
    WHERE NEW.started_at IS NOT NULL AND NEW.status IN ('completed', 'incomplete')
      AND scope = NEW.scope AND agent_id = NEW.agent_id;
END;
-- +goose StatementEnd

-- A run that ended, or is open again.
-- +goose StatementBegin
CREATE TRIGGER runs_count_update AFTER UPDATE OF status, started_at ON runs
WHEN (NEW.started_at IS NOT NULL AND NEW.status IN ('completed', 'incomplete'))
  <> (OLD.started_at IS NOT NULL AND OLD.status IN ('completed', 'incomplete')) BEGIN
    UPDATE run_agents
    SET ended = ended + CASE WHEN NEW.started_at IS NOT NULL AND NEW.status IN ('completed', 'incomplete') THEN 1 ELSE -1 END
    WHERE scope = NEW.scope AND agent_id = NEW.agent_id;
END;
-- +goose StatementEnd

-- A run that went.
-- +goose StatementBegin
CREATE TRIGGER runs_count_delete AFTER DELETE ON runs
WHEN OLD.started_at IS NOT NULL AND OLD.status IN ('completed', 'incomplete') BEGIN
    UPDATE run_agents SET ended = ended - 1 WHERE scope = OLD.scope AND agent_id = OLD.agent_id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE run_append_keys;
DROP TABLE run_records;
DROP TABLE run_agents;
DROP TABLE runs;
