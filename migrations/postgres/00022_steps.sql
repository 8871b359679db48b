-- +goose Up
CREATE TABLE run_steps (
    run        BIGINT NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    step_key   TEXT   COLLATE "C" NOT NULL CHECK (step_key <> ''),
    kind       TEXT   COLLATE "C" NOT NULL CHECK (kind IN ('reply', 'effect', 'question')),
    state      TEXT   COLLATE "C" NOT NULL CHECK (state IN ('open', 'waiting', 'done', 'given_up')),
    tool       TEXT   COLLATE "C",
    policy     TEXT   COLLATE "C" CHECK (policy IN ('ask', 'retry', 'give_up')),
    prompt     TEXT   COLLATE "C",
    request    BYTEA,
    attempt    BIGINT NOT NULL CHECK (attempt >= 1),
    epoch      BIGINT NOT NULL,
    turn       BIGINT NOT NULL CHECK (turn >= 0),
    result     BYTEA,
    decision   TEXT   COLLATE "C",
    settled_by TEXT   COLLATE "C",
    error      TEXT   COLLATE "C",
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    checksum   BIGINT,
    PRIMARY KEY (run, step_key),
    CHECK ((kind = 'effect') = (tool IS NOT NULL) AND (kind = 'effect') = (policy IS NOT NULL)),
    CHECK ((kind = 'question') = (prompt IS NOT NULL)),
    CHECK (kind = 'effect' OR state IN ('waiting', 'done')),
    CHECK (kind <> 'reply' OR state = 'done')
);
CREATE INDEX run_steps_by_run ON run_steps (run) WHERE state = 'waiting';
CREATE INDEX run_steps_waiting ON run_steps (created_at DESC, run, step_key) WHERE state = 'waiting';

ALTER TABLE runs ADD COLUMN epoch BIGINT;
ALTER TABLE runs ADD COLUMN ready_at BIGINT;
CREATE INDEX runs_ready ON runs (scope, agent_id, ready_at, key) WHERE ready_at IS NOT NULL AND ended_at IS NULL;
CREATE INDEX runs_failed ON runs (scope, ended_at DESC, key DESC) WHERE status IN ('incomplete', 'cancelled') OR outcome IN ('failure', 'timeout', 'give_up');
ALTER TABLE live_runs ADD COLUMN epoch BIGINT;

UPDATE runs SET epoch = l.epoch FROM leases AS l WHERE l.scope = runs.scope AND l.kind = 'run' AND l.name = runs.key::text COLLATE "C";
UPDATE live_runs SET epoch = l.epoch FROM leases AS l WHERE l.scope = live_runs.scope AND l.kind = 'live run' AND l.name = live_runs.key::text COLLATE "C";

-- +goose Down
ALTER TABLE live_runs DROP COLUMN epoch;
DROP INDEX runs_failed;
DROP INDEX runs_ready;
ALTER TABLE runs DROP COLUMN ready_at;
ALTER TABLE runs DROP COLUMN epoch;
DROP TABLE run_steps;
