-- Owners that know whose pids theirs is one of, and what has a name and is reserved under a lease.

-- +goose Up
ALTER TABLE owners ADD COLUMN pid_ns INTEGER; -- inode of the namespace that pid belongs to; a pid of another namespace says nothing. NULL: the system has none, or registered before it was kept
ALTER TABLE owners ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it but id; NULL: from before there were checksums

-- owners.id: number of the process, never given twice
-- owners.token: made by the process when it opened the file; which byte it keeps locked, far behind the file's last page, follows from it

-- What is reserved: a port, a worktree, a path, whatever has a name. One row a reservation; its row goes when it is released.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- The foreign key: what ends with its process.
CREATE INDEX leases_by_owner ON leases (owner_id) WHERE owner_id IS NOT NULL;

-- +goose Down
DROP TABLE leases;
ALTER TABLE owners DROP COLUMN checksum;
ALTER TABLE owners DROP COLUMN pid_ns;
