-- Runs that survive a crash: the steps of a run whose outcome is kept, and the lease under which a run is written.

-- +goose Up
-- What a run must not do twice: what a model answered, what was done outside, what a person was asked. Each row is written before
-- anything follows from it.
-- +goose StatementBegin
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
-- +goose StatementEnd
-- What waits, in a run and in all: few at any time.
CREATE INDEX run_steps_by_run ON run_steps (run) WHERE state = 'waiting';
CREATE INDEX run_steps_waiting ON run_steps (created_at DESC, run, step_key) WHERE state = 'waiting';

ALTER TABLE runs ADD COLUMN epoch INTEGER; -- of the lease under which the run is written; the run is free if there is no such lease. NULL: none since the last write
ALTER TABLE runs ADD COLUMN ready_at INTEGER; -- Unix nanoseconds from which on a worker may take the run: it was submitted, answered or given back; NULL: it waits for a person, or is not for workers. Of a run that has ended it counts if that is incomplete and was taken, left or answered since
-- What a worker takes next.
CREATE INDEX runs_ready ON runs (scope, agent_id, ready_at, key) WHERE ready_at IS NOT NULL AND ended_at IS NULL;
-- The runs that did not achieve their intent.
CREATE INDEX runs_failed ON runs (scope, ended_at DESC, key DESC) WHERE status IN ('incomplete', 'cancelled') OR outcome IN ('failure', 'timeout', 'give_up');
ALTER TABLE live_runs ADD COLUMN epoch INTEGER; -- of the lease under which the live run is written, which may be that of its trace; NULL: none since the last write

-- The leases of programs from before this step.
UPDATE runs SET epoch = (SELECT l.epoch FROM leases AS l WHERE l.scope = runs.scope AND l.kind = 'run' AND l.name = CAST(runs.key AS TEXT))
WHERE key IN (SELECT CAST(name AS INTEGER) FROM leases WHERE kind = 'run');
UPDATE live_runs SET epoch = (SELECT l.epoch FROM leases AS l WHERE l.scope = live_runs.scope AND l.kind = 'live run' AND l.name = CAST(live_runs.key AS TEXT))
WHERE key IN (SELECT CAST(name AS INTEGER) FROM leases WHERE kind = 'live run');

-- +goose Down
ALTER TABLE live_runs DROP COLUMN epoch;
DROP INDEX runs_failed;
DROP INDEX runs_ready;
ALTER TABLE runs DROP COLUMN ready_at;
ALTER TABLE runs DROP COLUMN epoch;
DROP TABLE run_steps;
