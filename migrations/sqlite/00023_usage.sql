-- Usage: what models used, with a row for each record that counts tokens or money.

-- +goose Up
-- The runs whose records count, with what names them after both trace and live run are gone.
-- +goose StatementBegin
CREATE TABLE usage_runs (
    id          INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row, never used again
    scope       INTEGER NOT NULL,                           -- number of the run's scope, as in scopes
    run_id      TEXT    NOT NULL,                           -- the run: its trace, and the live run with the same id
    agent_id    TEXT,                                       -- of the trace, of the first if several count; NULL: none counted yet
    session_id  TEXT,                                       -- of the live run; NULL: none was here when a record counted
    recorded_at INTEGER,                                    -- Unix nanoseconds, of the first record that counted; NULL: imported without it
    checksum    INTEGER,                                    -- CRC-32C of scope, run_id and recorded_at; NULL: changed by hand, or from before schema 23
    UNIQUE (run_id, scope)
) STRICT;
-- +goose StatementEnd
-- The runs of an agent, of a session and of a day.
CREATE INDEX usage_runs_by_agent ON usage_runs (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX usage_runs_by_session ON usage_runs (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX usage_runs_by_time ON usage_runs (recorded_at);

-- What each record counts.
-- +goose StatementBegin
CREATE TABLE usage_records (
    id                      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row, never used again
    usage_run               INTEGER NOT NULL REFERENCES usage_runs (id) ON DELETE CASCADE, -- the run
    account                 TEXT    NOT NULL CHECK (account IN ('reply', 'model_turn', 'turn', 'turn_end', 'agent_end')), -- kind of the record; each kind is an account of the same work
    agent_id                TEXT,                                       -- of the trace, where it is not that of the run; NULL: it is
    run                     INTEGER,                                    -- number of the trace (runs.key), which may be gone; NULL: of a live run
    live_run                INTEGER,                                    -- number of the live run (live_runs.key), which may be gone; NULL: of a trace
    sequence                INTEGER,                                    -- place of the record in the trace, from 1, or in the live run, from 0; NULL: a reply
    step_key                TEXT,                                       -- of the reply; NULL: another record
    recorded_at             INTEGER,                                    -- Unix nanoseconds, as the record has it; NULL: imported without it
    provider                TEXT, -- of the model; NULL: not recorded
    request_model           TEXT, -- model that was asked for; NULL: not recorded
    response_model          TEXT, -- model that answered; NULL: not recorded
    input_tokens            INTEGER CHECK (input_tokens >= 0), -- tokens read, those from a cache included; NULL: not counted
    cache_read_input_tokens INTEGER CHECK (cache_read_input_tokens >= 0), -- of these, read from a cache; NULL: not counted
    cache_write_input_tokens INTEGER CHECK (cache_write_input_tokens >= 0), -- of these, written to a cache; NULL: not counted
    output_tokens           INTEGER CHECK (output_tokens >= 0), -- tokens answered; NULL: not counted
    reasoning_output_tokens INTEGER CHECK (reasoning_output_tokens >= 0), -- of these, for reasoning; NULL: not counted
    cost_nanos              INTEGER CHECK (cost_nanos >= 0), -- billionths of a US dollar; NULL: unknown
    checksum                INTEGER,                                    -- CRC-32C of the columns from account to cost_nanos but agent_id; NULL: changed by hand, or from before schema 23
    CHECK ((run IS NULL) <> (live_run IS NULL)),
    CHECK ((account = 'reply') = (step_key IS NOT NULL))
) STRICT;
-- +goose StatementEnd
-- The records of a run, those of a day, and those whose agent is not that of the run.
CREATE INDEX usage_records_by_run ON usage_records (usage_run, account);
CREATE INDEX usage_records_by_time ON usage_records (recorded_at) WHERE recorded_at IS NOT NULL;
CREATE INDEX usage_records_by_agent ON usage_records (agent_id) WHERE agent_id IS NOT NULL;

-- What removed runs used, summed up.
-- +goose StatementBegin
CREATE TABLE usage_days (
    id                      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row, never used again
    scope                   INTEGER NOT NULL,                        -- number of the runs' scope, as in scopes
    day                     INTEGER NOT NULL,                        -- Unix nanoseconds at which the day begins, UTC
    agent_id                TEXT    NOT NULL,                        -- of the traces; '': live runs without one
    session_id              TEXT    NOT NULL,                        -- of the live runs; '': they had none, or no agent has its id
    provider                TEXT, -- of the model; NULL: not recorded
    request_model           TEXT, -- model that was asked for; NULL: not recorded
    response_model          TEXT, -- model that answered; NULL: not recorded
    input_tokens            INTEGER CHECK (input_tokens >= 0), -- tokens read, those from a cache included; NULL: not counted
    cache_read_input_tokens INTEGER CHECK (cache_read_input_tokens >= 0), -- of these, read from a cache; NULL: not counted
    cache_write_input_tokens INTEGER CHECK (cache_write_input_tokens >= 0), -- of these, written to a cache; NULL: not counted
    output_tokens           INTEGER CHECK (output_tokens >= 0), -- tokens answered; NULL: not counted
    reasoning_output_tokens INTEGER CHECK (reasoning_output_tokens >= 0), -- of these, for reasoning; NULL: not counted
    cost_nanos              INTEGER CHECK (cost_nanos >= 0), -- billionths of a US dollar; NULL: unknown
    checksum                INTEGER                                  -- CRC-32C of the columns before it but id; NULL: changed by hand
) STRICT;
-- +goose StatementEnd
-- The rows of an agent, of a session and of a day.
CREATE INDEX usage_days_by_agent ON usage_days (agent_id, session_id, scope, day);
CREATE INDEX usage_days_by_session ON usage_days (session_id) WHERE session_id <> '';
CREATE INDEX usage_days_by_day ON usage_days (day);

-- What is here already, as the views of schema 22 read it.
INSERT INTO usage_runs (scope, run_id, agent_id, recorded_at) SELECT scope, run_id, min(agent_id), min(started_at) FROM runs GROUP BY scope, run_id;
INSERT INTO usage_runs (scope, run_id, session_id, recorded_at) SELECT scope, run_id, session_id, created_at FROM live_runs WHERE true
ON CONFLICT (run_id, scope) DO UPDATE SET session_id = excluded.session_id;
INSERT INTO usage_records (usage_run, account, agent_id, run, sequence, recorded_at, provider, request_model, response_model,
    input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_nanos)
SELECT * FROM (
  SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, CASE WHEN typeof(a) IN ('integer',
            'real') AND a BETWEEN 0 AND 9007199254740991 AND a = CAST(a AS INTEGER) THEN CAST(a AS INTEGER) END AS a, CASE
            WHEN typeof(b) IN ('integer', 'real') AND b BETWEEN 0 AND 9007199254740991 AND b = CAST(b AS INTEGER) THEN CAST(b AS INTEGER) END AS b,
            CASE WHEN typeof(c) IN ('integer', 'real') AND c BETWEEN 0 AND 9007199254740991 AND c = CAST(c AS INTEGER)
            THEN CAST(c AS INTEGER) END AS c, CASE WHEN typeof(d) IN ('integer',
            'real') AND d BETWEEN 0 AND 9007199254740991 AND d = CAST(d AS INTEGER) THEN CAST(d AS INTEGER) END AS d, CASE
            WHEN typeof(e) IN ('integer', 'real') AND e BETWEEN 0 AND 9007199254740991 AND e = CAST(e AS INTEGER) THEN CAST(e AS INTEGER) END AS e,
            CASE WHEN typeof(f) IN ('integer', 'real') AND f BETWEEN 0 AND 9007199 THEN CAST(round(f * 1e9) AS INTEGER) END AS f FROM (
    SELECT w.id AS c0, coalesce(t.unknown_kind, t.kind) AS c1, CASE WHEN r.agent_id <> w.agent_id THEN r.agent_id END AS c2, r.key AS c3,
            t.id & 16777215 AS c4, coalesce(t.recorded_at, CASE WHEN t.kind <> 'turn' AND CAST(strftime('%s', json_extract(t.j,
            '$.recorded_at')) AS INTEGER) BETWEEN -9223372036 AND 9223372035
            THEN CAST(strftime('%s', json_extract(t.j, '$.recorded_at')) AS INTEGER) * 1000000000 END) AS c5, coalesce(json_extract(t.j,
            '$.provider'), json_extract(t.j, '$.meta.provider')) AS c6, coalesce(json_extract(t.j, '$.request_model'), json_extract(t.j,
            '$.meta.request_model')) AS c7, coalesce(json_extract(t.j, '$.response_model'), json_extract(t.j, '$.model_id'), json_extract(t.j,
            '$.meta.response_model'), json_extract(t.j, '$.model')) AS c8,
        CASE WHEN json_extract(t.j, t.u || '.total_tokens') - coalesce(json_extract(t.j, t.u || '.output_tokens'), json_extract(t.j,
            t.u || '.completion_tokens'), json_extract(t.j, t.u || '.candidatesTokenCount') + coalesce(json_extract(t.j,
            t.u || '.thoughtsTokenCount'), 0), json_extract(t.j, t.u || '.thoughtsTokenCount')) - coalesce(json_extract(t.j, t.u || '.input_tokens'),
            json_extract(t.j, t.u || '.prompt_tokens'), json_extract(t.j, t.u || '.promptTokenCount') + coalesce(json_extract(t.j,
            t.u || '.toolUsePromptTokenCount'), 0)) = coalesce(coalesce(json_extract(t.j, t.u || '.cache_read_input_tokens'), json_extract(t.j,
            t.u || '.cache_read_tokens'), json_extract(t.j, t.u || '.prompt_tokens_details.cached_tokens'), json_extract(t.j,
            t.u || '.input_tokens_details.cached_tokens'), json_extract(t.j, t.u || '.cachedContentTokenCount')),
            0) + coalesce(coalesce(json_extract(t.j, t.u || '.cache_write_input_tokens'), json_extract(t.j, t.u || '.cache_creation_input_tokens'),
            json_extract(t.j, t.u || '.cache_write_tokens')), 0) THEN json_extract(t.j, t.u || '.total_tokens') - coalesce(json_extract(t.j,
            t.u || '.output_tokens'), json_extract(t.j, t.u || '.completion_tokens'), json_extract(t.j,
            t.u || '.candidatesTokenCount') + coalesce(json_extract(t.j, t.u || '.thoughtsTokenCount'), 0), json_extract(t.j,
            t.u || '.thoughtsTokenCount')) WHEN json_extract(t.j, t.u || '.total_tokens') IS NULL AND json_extract(t.j,
            t.u || '.input_tokens') + json_extract(t.j, t.u || '.cache_creation_input_tokens') IS NOT NULL THEN coalesce(json_extract(t.j,
            t.u || '.input_tokens'), json_extract(t.j, t.u || '.prompt_tokens'), json_extract(t.j,
            t.u || '.promptTokenCount') + coalesce(json_extract(t.j, t.u || '.toolUsePromptTokenCount'), 0)) + coalesce(coalesce(json_extract(t.j,
            t.u || '.cache_read_input_tokens'), json_extract(t.j, t.u || '.cache_read_tokens'), json_extract(t.j,
            t.u || '.prompt_tokens_details.cached_tokens'), json_extract(t.j, t.u || '.input_tokens_details.cached_tokens'), json_extract(t.j,
            t.u || '.cachedContentTokenCount')), 0) + coalesce(coalesce(json_extract(t.j, t.u || '.cache_write_input_tokens'), json_extract(t.j,
            t.u || '.cache_creation_input_tokens'), json_extract(t.j, t.u || '.cache_write_tokens')), 0) ELSE coalesce(json_extract(t.j,
            t.u || '.input_tokens'), json_extract(t.j, t.u || '.prompt_tokens'), json_extract(t.j,
            t.u || '.promptTokenCount') + coalesce(json_extract(t.j, t.u || '.toolUsePromptTokenCount'), 0)) END AS a, coalesce(json_extract(t.j,
            t.u || '.cache_read_input_tokens'), json_extract(t.j, t.u || '.cache_read_tokens'), json_extract(t.j,
            t.u || '.prompt_tokens_details.cached_tokens'), json_extract(t.j, t.u || '.input_tokens_details.cached_tokens'), json_extract(t.j,
            t.u || '.cachedContentTokenCount')) AS b, coalesce(json_extract(t.j, t.u || '.cache_write_input_tokens'), json_extract(t.j,
            t.u || '.cache_creation_input_tokens'), json_extract(t.j, t.u || '.cache_write_tokens')) AS c, coalesce(json_extract(t.j,
            t.u || '.output_tokens'), json_extract(t.j, t.u || '.completion_tokens'), json_extract(t.j,
            t.u || '.candidatesTokenCount') + coalesce(json_extract(t.j, t.u || '.thoughtsTokenCount'), 0), json_extract(t.j,
            t.u || '.thoughtsTokenCount')) AS d, coalesce(json_extract(t.j, t.u || '.reasoning_output_tokens'), json_extract(t.j,
            t.u || '.reasoning_tokens'), json_extract(t.j, t.u || '.completion_tokens_details.reasoning_tokens'), json_extract(t.j,
            t.u || '.output_tokens_details.reasoning_tokens'), json_extract(t.j, t.u || '.thoughtsTokenCount')) AS e, coalesce(json_extract(t.j,
            '$.cost_usd'), json_extract(t.j, t.u || '.cost_usd')) AS f
    FROM runs AS r JOIN usage_runs AS w ON w.run_id = r.run_id AND w.scope = r.scope
    CROSS JOIN (SELECT *, CASE WHEN json_type(j, '$.token_usage') = 'object' THEN '$.token_usage' WHEN json_type(j, '$.usage') = 'object'
            THEN '$.usage' ELSE '$.usageMetadata' END AS u FROM (SELECT *, CASE WHEN json_valid(CAST(raw AS TEXT))
            THEN CAST(raw AS TEXT) END AS j FROM run_records WHERE raw IS NOT NULL AND (kind = 'turn' OR unknown_kind = 'model_turn'))) AS t
    WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24
  )
) WHERE coalesce(a, b, c, d, e, f) IS NOT NULL;
INSERT INTO usage_records (usage_run, account, live_run, sequence, recorded_at, provider, request_model, response_model,
    input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_nanos)
SELECT * FROM (
  SELECT c0, c1, c2, c3, c4, c5, c6, c7, CASE WHEN typeof(a) IN ('integer',
            'real') AND a BETWEEN 0 AND 9007199254740991 AND a = CAST(a AS INTEGER) THEN CAST(a AS INTEGER) END AS a, CASE
            WHEN typeof(b) IN ('integer', 'real') AND b BETWEEN 0 AND 9007199254740991 AND b = CAST(b AS INTEGER) THEN CAST(b AS INTEGER) END AS b,
            CASE WHEN typeof(c) IN ('integer', 'real') AND c BETWEEN 0 AND 9007199254740991 AND c = CAST(c AS INTEGER)
            THEN CAST(c AS INTEGER) END AS c, CASE WHEN typeof(d) IN ('integer',
            'real') AND d BETWEEN 0 AND 9007199254740991 AND d = CAST(d AS INTEGER) THEN CAST(d AS INTEGER) END AS d, CASE
            WHEN typeof(e) IN ('integer', 'real') AND e BETWEEN 0 AND 9007199254740991 AND e = CAST(e AS INTEGER) THEN CAST(e AS INTEGER) END AS e,
            CASE WHEN typeof(f) IN ('integer', 'real') AND f BETWEEN 0 AND 9007199 THEN CAST(round(f * 1e9) AS INTEGER) END AS f FROM (
    SELECT w.id AS c0, t.type AS c1, r.key AS c2, coalesce(t.sequence, t.id & 4294967295) AS c3, t.recorded_at AS c4, coalesce(json_extract(t.j,
            '$.provider'), json_extract(t.j, '$.meta.provider')) AS c5, coalesce(json_extract(t.j, '$.request_model'), json_extract(t.j,
            '$.meta.request_model')) AS c6, coalesce(json_extract(t.j, '$.response_model'), json_extract(t.j, '$.model_id'), json_extract(t.j,
            '$.meta.response_model'), json_extract(t.j, '$.model')) AS c7,
        CASE WHEN json_extract(t.j, t.u || '.total_tokens') - coalesce(json_extract(t.j, t.u || '.output_tokens'), json_extract(t.j,
            t.u || '.completion_tokens'), json_extract(t.j, t.u || '.candidatesTokenCount') + coalesce(json_extract(t.j,
            t.u || '.thoughtsTokenCount'), 0), json_extract(t.j, t.u || '.thoughtsTokenCount')) - coalesce(json_extract(t.j, t.u || '.input_tokens'),
            json_extract(t.j, t.u || '.prompt_tokens'), json_extract(t.j, t.u || '.promptTokenCount') + coalesce(json_extract(t.j,
            t.u || '.toolUsePromptTokenCount'), 0)) = coalesce(coalesce(json_extract(t.j, t.u || '.cache_read_input_tokens'), json_extract(t.j,
            t.u || '.cache_read_tokens'), json_extract(t.j, t.u || '.prompt_tokens_details.cached_tokens'), json_extract(t.j,
            t.u || '.input_tokens_details.cached_tokens'), json_extract(t.j, t.u || '.cachedContentTokenCount')),
            0) + coalesce(coalesce(json_extract(t.j, t.u || '.cache_write_input_tokens'), json_extract(t.j, t.u || '.cache_creation_input_tokens'),
            json_extract(t.j, t.u || '.cache_write_tokens')), 0) THEN json_extract(t.j, t.u || '.total_tokens') - coalesce(json_extract(t.j,
            t.u || '.output_tokens'), json_extract(t.j, t.u || '.completion_tokens'), json_extract(t.j,
            t.u || '.candidatesTokenCount') + coalesce(json_extract(t.j, t.u || '.thoughtsTokenCount'), 0), json_extract(t.j,
            t.u || '.thoughtsTokenCount')) WHEN json_extract(t.j, t.u || '.total_tokens') IS NULL AND json_extract(t.j,
            t.u || '.input_tokens') + json_extract(t.j, t.u || '.cache_creation_input_tokens') IS NOT NULL THEN coalesce(json_extract(t.j,
            t.u || '.input_tokens'), json_extract(t.j, t.u || '.prompt_tokens'), json_extract(t.j,
            t.u || '.promptTokenCount') + coalesce(json_extract(t.j, t.u || '.toolUsePromptTokenCount'), 0)) + coalesce(coalesce(json_extract(t.j,
            t.u || '.cache_read_input_tokens'), json_extract(t.j, t.u || '.cache_read_tokens'), json_extract(t.j,
            t.u || '.prompt_tokens_details.cached_tokens'), json_extract(t.j, t.u || '.input_tokens_details.cached_tokens'), json_extract(t.j,
            t.u || '.cachedContentTokenCount')), 0) + coalesce(coalesce(json_extract(t.j, t.u || '.cache_write_input_tokens'), json_extract(t.j,
            t.u || '.cache_creation_input_tokens'), json_extract(t.j, t.u || '.cache_write_tokens')), 0) ELSE coalesce(json_extract(t.j,
            t.u || '.input_tokens'), json_extract(t.j, t.u || '.prompt_tokens'), json_extract(t.j,
            t.u || '.promptTokenCount') + coalesce(json_extract(t.j, t.u || '.toolUsePromptTokenCount'), 0)) END AS a, coalesce(json_extract(t.j,
            t.u || '.cache_read_input_tokens'), json_extract(t.j, t.u || '.cache_read_tokens'), json_extract(t.j,
            t.u || '.prompt_tokens_details.cached_tokens'), json_extract(t.j, t.u || '.input_tokens_details.cached_tokens'), json_extract(t.j,
            t.u || '.cachedContentTokenCount')) AS b, coalesce(json_extract(t.j, t.u || '.cache_write_input_tokens'), json_extract(t.j,
            t.u || '.cache_creation_input_tokens'), json_extract(t.j, t.u || '.cache_write_tokens')) AS c, coalesce(json_extract(t.j,
            t.u || '.output_tokens'), json_extract(t.j, t.u || '.completion_tokens'), json_extract(t.j,
            t.u || '.candidatesTokenCount') + coalesce(json_extract(t.j, t.u || '.thoughtsTokenCount'), 0), json_extract(t.j,
            t.u || '.thoughtsTokenCount')) AS d, coalesce(json_extract(t.j, t.u || '.reasoning_output_tokens'), json_extract(t.j,
            t.u || '.reasoning_tokens'), json_extract(t.j, t.u || '.completion_tokens_details.reasoning_tokens'), json_extract(t.j,
            t.u || '.output_tokens_details.reasoning_tokens'), json_extract(t.j, t.u || '.thoughtsTokenCount')) AS e, coalesce(json_extract(t.j,
            '$.cost_usd'), json_extract(t.j, t.u || '.cost_usd')) AS f
    FROM live_runs AS r JOIN usage_runs AS w ON w.run_id = r.run_id AND w.scope = r.scope
    CROSS JOIN (SELECT *, CASE WHEN json_type(j, '$.token_usage') = 'object' THEN '$.token_usage' WHEN json_type(j, '$.usage') = 'object'
            THEN '$.usage' ELSE '$.usageMetadata' END AS u FROM (SELECT *, CASE WHEN json_valid(CAST(event AS TEXT))
            THEN CAST(event AS TEXT) END AS j FROM live_events WHERE type IN ('turn_end', 'agent_end'))) AS t
    WHERE t.id >= r.key << 32 AND t.id < (r.key + 1) << 32
  )
) WHERE coalesce(a, b, c, d, e, f) IS NOT NULL;
UPDATE usage_runs SET agent_id = NULL WHERE id NOT IN (SELECT usage_run FROM usage_records WHERE run IS NOT NULL);
DELETE FROM usage_runs WHERE id NOT IN (SELECT usage_run FROM usage_records);

-- +goose Down
DROP TABLE usage_days;
DROP TABLE usage_records;
DROP TABLE usage_runs;
