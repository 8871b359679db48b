-- State: values under keys.
CREATE VIEW v_state AS
SELECT
    s.name AS scope,
    v.owner AS owner,
    v.state_key AS state_key,
    v.value AS value,
    (v.id || '.' || v.changes) COLLATE "C" AS version,
    utc(v.updated_at) COLLATE "C" AS updated_at,
    v.updated_at AS updated_at_ns
FROM state_values AS v
JOIN scopes AS s ON s.id = v.scope;
