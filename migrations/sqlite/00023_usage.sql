-- Usage: what models used, with a row for each record that counts tokens or money.

-- +goose Up
-- The traces and live runs whose records count, with what names them after they are gone.
-- +goose StatementBegin
CREATE TABLE usage_runs (
    id          INTEGER NOT NULL PRIMARY KEY, -- twice the number of the trace (runs.key), or twice that of the live run (live_runs.key) and 1; it may be gone
    scope       INTEGER NOT NULL,             -- number of the run's scope, as in scopes
    run_id      TEXT    NOT NULL,             -- the run: its traces, and the live run with the same id
    agent_id    TEXT,                         -- of the trace; NULL: a live run
    session_id  TEXT,                         -- of the live run; NULL: a trace
    recorded_at INTEGER,                      -- Unix nanoseconds, of the first record that counted; NULL: imported without it
    checksum    INTEGER,                      -- CRC-32C of the columns before it; NULL: changed by hand, or from before schema 23
    CHECK ((agent_id IS NULL) = (id % 2 = 1)),
    CHECK ((session_id IS NULL) = (id % 2 = 0))
) STRICT;
-- +goose StatementEnd
-- The rows of a run, an agent, a session and a day.
CREATE INDEX usage_runs_by_run ON usage_runs (run_id, scope, agent_id);
CREATE INDEX usage_runs_by_agent ON usage_runs (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX usage_runs_by_session ON usage_runs (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX usage_runs_by_time ON usage_runs (recorded_at);

-- What each record counts.
-- +goose StatementBegin
CREATE TABLE usage_records (
    id                      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row, never used again
    usage_run               INTEGER NOT NULL REFERENCES usage_runs (id) ON DELETE CASCADE, -- the trace or live run
    account                 TEXT    NOT NULL CHECK (account IN ('reply', 'model_turn', 'turn', 'turn_end', 'agent_end')), -- kind of the record; each kind is an account of the same work
    sequence                INTEGER, -- place of the record in the trace, from 1, or in the live run, from 0; NULL: a reply, or its record was lost
    step_key                TEXT,    -- of the reply; NULL: another record
    recorded_at             INTEGER, -- Unix nanoseconds, as the record has it; NULL: imported without it
    provider                TEXT, -- of the model; NULL: not recorded
    request_model           TEXT, -- model that was asked for; NULL: not recorded
    response_model          TEXT, -- model that answered; NULL: not recorded
    input_tokens            INTEGER CHECK (input_tokens >= 0), -- tokens read, those from a cache included; NULL: not counted
    cache_read_input_tokens INTEGER CHECK (cache_read_input_tokens >= 0), -- of these, read from a cache; NULL: not counted
    cache_write_input_tokens INTEGER CHECK (cache_write_input_tokens >= 0), -- of these, written to a cache; NULL: not counted
    output_tokens           INTEGER CHECK (output_tokens >= 0), -- tokens answered; NULL: not counted
    reasoning_output_tokens INTEGER CHECK (reasoning_output_tokens >= 0), -- of these, for reasoning; NULL: not counted
    cost_nanos              INTEGER CHECK (cost_nanos >= 0), -- billionths of a US dollar; NULL: unknown
    checksum                INTEGER, -- CRC-32C of the columns before it but id; NULL: changed by hand, or from before schema 23
    CHECK ((account = 'reply') = (step_key IS NOT NULL)),
    CHECK ((account IN ('turn_end', 'agent_end')) = (usage_run % 2 = 1))
) STRICT;
-- +goose StatementEnd
-- The records of a run, and those of a day.
CREATE INDEX usage_records_by_run ON usage_records (usage_run, account);
CREATE INDEX usage_records_by_time ON usage_records (recorded_at) WHERE recorded_at IS NOT NULL;

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

-- What is here already, as the views of schema 22 read it. c is the object with the counts.
INSERT INTO usage_runs (id, scope, run_id, agent_id, recorded_at) SELECT key * 2, scope, run_id, agent_id, started_at FROM runs;
INSERT INTO usage_runs (id, scope, run_id, session_id, recorded_at) SELECT key * 2 + 1, scope, run_id, session_id, created_at FROM live_runs;
INSERT INTO usage_records (usage_run, account, sequence, recorded_at, provider, request_model, response_model,
    input_tokens, cache_read_input_tokens, cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_nanos)
SELECT usage_run, account, sequence, recorded_at, provider, request_model, response_model, input, cache_read, cache_write, output, reasoning, cost
FROM (
    SELECT usage_run, account, sequence, recorded_at, provider, request_model, response_model,
        CASE WHEN typeof(input) IN ('integer', 'real') AND input BETWEEN 0 AND 9007199254740991 AND input = CAST(input AS INTEGER) THEN CAST(input AS INTEGER) END AS input,
        CASE WHEN typeof(cache_read) IN ('integer', 'real') AND cache_read BETWEEN 0 AND 9007199254740991 AND cache_read = CAST(cache_read AS INTEGER) THEN CAST(cache_read AS INTEGER) END AS cache_read,
        CASE WHEN typeof(cache_write) IN ('integer', 'real') AND cache_write BETWEEN 0 AND 9007199254740991 AND cache_write = CAST(cache_write AS INTEGER) THEN CAST(cache_write AS INTEGER) END AS cache_write,
        CASE WHEN typeof(output) IN ('integer', 'real') AND output BETWEEN 0 AND 9007199254740991 AND output = CAST(output AS INTEGER) THEN CAST(output AS INTEGER) END AS output,
        CASE WHEN typeof(reasoning) IN ('integer', 'real') AND reasoning BETWEEN 0 AND 9007199254740991 AND reasoning = CAST(reasoning AS INTEGER) THEN CAST(reasoning AS INTEGER) END AS reasoning,
        CASE WHEN typeof(cost) IN ('integer', 'real') AND cost BETWEEN 0 AND 9007199 THEN CAST(round(cost * 1e9) AS INTEGER) END AS cost
    FROM (
        -- Some records count cached tokens apart from the input tokens, and some among them. The total shows which. Anthropic's counts have no
        -- total, and are apart.
        SELECT *, CASE WHEN total - output - prompt = coalesce(cache_read, 0) + coalesce(cache_write, 0) THEN total - output
            WHEN total IS NULL AND (c ->> 'input_tokens') + (c ->> 'cache_creation_input_tokens') IS NOT NULL THEN prompt + coalesce(cache_read, 0) + coalesce(cache_write, 0)
            ELSE prompt END AS input
        FROM (
            SELECT usage_run, account, sequence, c, coalesce(recorded_at, CASE WHEN account = 'model_turn'
                    AND CAST(strftime('%s', j ->> 'recorded_at') AS INTEGER) BETWEEN -9223372036 AND 9223372035
                    THEN CAST(strftime('%s', j ->> 'recorded_at') AS INTEGER) * 1000000000 END) AS recorded_at,
                coalesce(j ->> 'provider', j ->> '$.meta.provider') AS provider,
                coalesce(j ->> 'request_model', j ->> '$.meta.request_model') AS request_model,
                coalesce(j ->> 'response_model', j ->> 'model_id', j ->> '$.meta.response_model', j ->> 'model') AS response_model,
                c ->> 'total_tokens' AS total,
                coalesce(c ->> 'input_tokens', c ->> 'prompt_tokens', (c ->> 'promptTokenCount') + coalesce(c ->> 'toolUsePromptTokenCount', 0)) AS prompt,
                coalesce(c ->> 'cache_read_input_tokens', c ->> 'cache_read_tokens', c ->> '$.prompt_tokens_details.cached_tokens',
                    c ->> '$.input_tokens_details.cached_tokens', c ->> 'cachedContentTokenCount') AS cache_read,
                coalesce(c ->> 'cache_write_input_tokens', c ->> 'cache_creation_input_tokens', c ->> 'cache_write_tokens',
                    c ->> '$.prompt_tokens_details.cache_write_tokens', c ->> '$.input_tokens_details.cache_write_tokens') AS cache_write,
                coalesce(c ->> 'output_tokens', c ->> 'completion_tokens', (c ->> 'candidatesTokenCount') + coalesce(c ->> 'thoughtsTokenCount', 0),
                    c ->> 'thoughtsTokenCount') AS output,
                coalesce(c ->> 'reasoning_output_tokens', c ->> 'reasoning_tokens', c ->> '$.completion_tokens_details.reasoning_tokens',
                    c ->> '$.output_tokens_details.reasoning_tokens', c ->> '$.output_tokens_details.thinking_tokens', c ->> 'thoughtsTokenCount') AS reasoning,
                coalesce(j ->> 'cost_usd', c ->> 'cost_usd') AS cost
            FROM (
                SELECT *, CASE WHEN json_type(j, '$.token_usage') = 'object' THEN j -> 'token_usage' WHEN json_type(j, '$.usage') = 'object'
                    THEN j -> 'usage' ELSE j -> 'usageMetadata' END AS c
                FROM (
                    SELECT usage_run, account, sequence, recorded_at, CASE WHEN json_valid(CAST(raw AS TEXT)) THEN CAST(raw AS TEXT) END AS j
                    FROM (
                        SELECT (id >> 24) * 2 AS usage_run, coalesce(unknown_kind, kind) AS account, id & 16777215 AS sequence, recorded_at, raw
                        FROM run_records WHERE raw IS NOT NULL AND (kind = 'turn' OR unknown_kind = 'model_turn')
                        UNION ALL
                        SELECT (id >> 32) * 2 + 1, type, coalesce(sequence, id & 4294967295), recorded_at, event
                        FROM live_events WHERE type IN ('turn_end', 'agent_end')
                    )
                    WHERE usage_run IN (SELECT id FROM usage_runs)
                )
            )
        )
    )
)
WHERE coalesce(input, cache_read, cache_write, output, reasoning, cost) IS NOT NULL;
DELETE FROM usage_runs WHERE id NOT IN (SELECT usage_run FROM usage_records);

-- +goose Down
DROP TABLE usage_days;
DROP TABLE usage_records;
DROP TABLE usage_runs;
