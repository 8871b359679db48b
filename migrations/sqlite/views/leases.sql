-- What is reserved. Whether its process still lives only the kernel knows: `migrate reservations list` asks it.
CREATE VIEW v_reservations AS
SELECT
    s.name           AS scope,         -- '' is the default scope
    l.kind           AS kind,          -- sort of thing
    l.name           AS name,          -- which one of that sort
    l.epoch          AS epoch,         -- grows with every reservation in the file
    shown(l.note)           AS note,          -- what the holder wants it for; NULL: not said
    utc(l.reserved_at) AS reserved_at, -- UTC
    l.reserved_at AS reserved_at_ns, -- Unix nanoseconds
    utc(l.renewed_at) AS renewed_at, -- UTC; of the last renewal, or of the reservation
    l.renewed_at AS renewed_at_ns, -- Unix nanoseconds
    l.lease_ttl / 1e9 AS ttl_seconds,  -- it lasts so long from each renewal; NULL: as long as its process lives
    utc(l.lease_wall_until) AS ends_at, -- UTC, unless it is renewed; NULL: with its process
    l.lease_wall_until AS ends_at_ns, -- Unix nanoseconds; NULL: with its process
    l.owner_id IS NULL AS detached,    -- 1: it outlives its process
    o.pid            AS owner_pid,     -- process that it ends with; NULL: detached
    o.program        AS owner_program  -- its program
FROM leases l
JOIN scopes s ON s.id = l.scope
LEFT JOIN owners o ON o.id = l.owner_id;
