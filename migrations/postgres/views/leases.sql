-- What is reserved. Whether its process still lives only the kernel knows: `migrate reservations list` asks it.
CREATE VIEW v_reservations AS
SELECT
    s.name AS scope,
    l.kind AS kind,
    l.name AS name,
    l.epoch AS epoch,
    shown(l.note) AS note,
    utc(l.reserved_at) COLLATE "C" AS reserved_at,
    l.reserved_at AS reserved_at_ns,
    utc(l.renewed_at) COLLATE "C" AS renewed_at,
    l.renewed_at AS renewed_at_ns,
    l.lease_ttl / 1e9::float8 AS ttl_seconds,
    utc(l.lease_wall_until) COLLATE "C" AS ends_at,
    l.lease_wall_until AS ends_at_ns,
    (l.owner_id IS NULL)::int::bigint AS detached,
    o.pid AS owner_pid,
    o.program AS owner_program
FROM leases l
JOIN scopes s ON s.id = l.scope
LEFT JOIN owners o ON o.id = l.owner_id;
