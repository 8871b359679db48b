-- Two agents may have a run of the same id: the agent is in the key of a checkpoint. A worker finds the incomplete run of a dead
-- holder.

-- +goose Up
-- Numbers that were given are not given again.
CREATE TABLE checkpoint_numbers AS SELECT name, seq FROM sqlite_sequence WHERE name = 'checkpoints';
CREATE TABLE checkpoints_before AS SELECT * FROM checkpoints;
DROP TABLE checkpoints;
-- The hot rows, one a document.
-- +goose StatementBegin
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
-- +goose StatementEnd
INSERT INTO checkpoints (id, scope, state, run_id, paused_stage_id, prompt, created_at, created_at_text, saved_at, size, checksum,
    problem, epoch, claimed_at, owner_id, lease_ttl, lease_until, lease_boot_id, lease_time_ns, lease_wall_until, changes,
    row_checksum)
SELECT id, scope, state, run_id, paused_stage_id, prompt, created_at, created_at_text, saved_at, size, checksum,
    problem, epoch, claimed_at, owner_id, lease_ttl, lease_until, lease_boot_id, lease_time_ns, lease_wall_until, changes,
    row_checksum
FROM checkpoints_before;
DROP TABLE checkpoints_before;
DELETE FROM sqlite_sequence WHERE name = 'checkpoints';
INSERT INTO sqlite_sequence (name, seq) SELECT name, seq FROM checkpoint_numbers;
DROP TABLE checkpoint_numbers;
-- A run has at most one that waits and one that is claimed, per agent.
CREATE UNIQUE INDEX checkpoints_by_run ON checkpoints (scope, run_id, coalesce(agent_id, ''), state);
-- The foreign key: only claims have an owner.
CREATE INDEX checkpoints_by_owner ON checkpoints (owner_id) WHERE owner_id IS NOT NULL;
-- The claims: what recovery goes through, however many runs wait.
CREATE INDEX checkpoints_claimed ON checkpoints (scope, run_id, coalesce(agent_id, '')) WHERE state = 'claimed';

ALTER TABLE checkpoint_history ADD COLUMN agent_id TEXT; -- agent that the run belonged to; NULL: the calls named none

DROP INDEX runs_ready;
-- What a worker takes next: open runs, and incomplete ones that were taken, left or answered since their end.
CREATE INDEX runs_ready ON runs (scope, agent_id, ready_at, key) WHERE ready_at IS NOT NULL AND (ended_at IS NULL OR status = 'incomplete' AND ready_at >= ended_at);

-- +goose Down
DROP INDEX runs_ready;
-- What a worker takes next.
CREATE INDEX runs_ready ON runs (scope, agent_id, ready_at, key) WHERE ready_at IS NOT NULL AND ended_at IS NULL;
ALTER TABLE checkpoint_history DROP COLUMN agent_id;
-- Numbers that were given are not given again.
CREATE TABLE checkpoint_numbers AS SELECT name, seq FROM sqlite_sequence WHERE name = 'checkpoints';
CREATE TABLE checkpoints_before AS SELECT * FROM checkpoints;
DROP TABLE checkpoints;
-- The hot rows, one a document.
-- +goose StatementBegin
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
    row_checksum    INTEGER,                                 -- CRC-32C of scope, run_id and the columns from paused_stage_id to problem; NULL: not saved since there are checksums
    UNIQUE (scope, run_id, state),
    CHECK ((problem IS NULL) = (created_at IS NOT NULL) AND (created_at IS NULL) = (paused_stage_id IS NULL) AND (created_at IS NULL) = (prompt IS NULL)),
    CHECK (created_at IS NOT NULL OR created_at_text IS NULL),
    CHECK ((state = 'claimed') = (claimed_at IS NOT NULL)),
    CHECK (owner_id IS NULL OR state = 'claimed' AND epoch IS NOT NULL),
    CHECK (owner_id IS NOT NULL OR lease_ttl IS NULL),
    CHECK ((lease_ttl IS NULL) = (lease_until IS NULL) AND (lease_ttl IS NULL) = (lease_boot_id IS NULL))
) STRICT;
-- +goose StatementEnd
INSERT INTO checkpoints (id, scope, state, run_id, paused_stage_id, prompt, created_at, created_at_text, saved_at, size, checksum,
    problem, epoch, claimed_at, owner_id, lease_ttl, lease_until, lease_boot_id, lease_time_ns, lease_wall_until, changes,
    row_checksum)
SELECT id, scope, state, run_id, paused_stage_id, prompt, created_at, created_at_text, saved_at, size, checksum,
    problem, epoch, claimed_at, owner_id, lease_ttl, lease_until, lease_boot_id, lease_time_ns, lease_wall_until, changes,
    row_checksum
FROM checkpoints_before;
DROP TABLE checkpoints_before;
DELETE FROM sqlite_sequence WHERE name = 'checkpoints';
INSERT INTO sqlite_sequence (name, seq) SELECT name, seq FROM checkpoint_numbers;
DROP TABLE checkpoint_numbers;
-- The foreign key: only claims have an owner.
CREATE INDEX checkpoints_by_owner ON checkpoints (owner_id) WHERE owner_id IS NOT NULL;
-- The claims: what recovery goes through, however many runs wait.
CREATE INDEX checkpoints_claimed ON checkpoints (scope, run_id) WHERE state = 'claimed';
