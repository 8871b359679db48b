SELECT 'live run ' || key || ' says ' || kept_bytes || ' bytes of events and keeps ' || real
FROM (
    SELECT key, kept_bytes, coalesce((
        SELECT sum(CASE WHEN raw IS NOT NULL THEN length(raw)
            ELSE 38 + length(coalesce(sequence, id & 4294967295)::text) + length((recorded_at / 1000000)::text) + length(event) END)
        FROM live_events WHERE id >= key << 32 AND id < (key + 1) << 32), 0) AS real
    FROM live_runs
) AS x
WHERE real <> kept_bytes
