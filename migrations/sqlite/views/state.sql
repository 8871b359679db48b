-- State: values under keys.
CREATE VIEW v_state AS
SELECT
    s.name              AS scope,         -- '' is the default scope
    v.owner             AS owner,         -- whose value it is; '': nobody's
    v.state_key         AS state_key,     -- name of the value, one per owner
    v.value             AS value,         -- JSON, as it was set
    v.id || '.' || v.changes AS version,  -- names this write of the value, as in Go
    utc(v.updated_at)   AS updated_at,    -- UTC, of the last write
    v.updated_at        AS updated_at_ns  -- Unix nanoseconds
FROM state_values AS v
JOIN scopes AS s ON s.id = v.scope;
