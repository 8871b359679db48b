-- What the views and checks are written with. None of them fails, whatever is in a row: one broken text must not be the end of a query over all.

-- RFC 3339 in UTC, always with nine digits of fraction, so that times sort as text.
CREATE OR REPLACE FUNCTION utc(nanos BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    to_char(TIMESTAMP 'epoch' + div(nanos::numeric - (nanos % 1000000000 + 1000000000) % 1000000000, 1000000000)::float8 * INTERVAL '1 second', 'YYYY-MM-DD"T"HH24:MI:SS')
    || '.' || lpad(((nanos % 1000000000 + 1000000000) % 1000000000)::text, 9, '0') || 'Z';

-- Unix seconds of a time as RFC 3339 writes it; NULL: it is none. Its fraction is cut off, which the server would round to microseconds.
CREATE OR REPLACE FUNCTION unix_seconds(written TEXT) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF written !~ '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$' THEN
        RETURN NULL;
    END IF;
    RETURN floor(extract(epoch FROM (regexp_replace(written, '\.\d+', '') || CASE WHEN written ~ '(Z|[+-]\d\d:\d\d)$' THEN '' ELSE 'Z' END)::timestamptz));
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- Unix nanoseconds of Unix seconds; NULL: beyond what a column of times holds.
CREATE OR REPLACE FUNCTION nanos_of(seconds BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    CASE WHEN seconds BETWEEN -9223372036 AND 9223372035 THEN seconds * 1000000000 END;

-- A text of a column without what no text here can hold. The program writes U+10FFFF and "0" for NUL, U+10FFFF, "x" and two digits for a
-- byte that is no UTF-8, and U+10FFFF twice for itself. That one stays twice, here and in what is made of bytes: the program reads it so.
CREATE OR REPLACE FUNCTION shown(written TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    CASE WHEN strpos(written, U&'\+10FFFF') = 0 THEN written
         ELSE replace(regexp_replace(written, U&'\+10FFFF(?:0|x[0-9a-f][0-9a-f]|(\+10FFFF))', U&'\\1\FFFD', 'g'), U&'\+10FFFF\FFFD', U&'\+10FFFF\+10FFFF') END;

-- How many bytes such a text has in the program.
CREATE OR REPLACE FUNCTION raw_length(written TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    octet_length(CASE WHEN strpos(written, U&'\+10FFFF') = 0 THEN written
        ELSE replace(regexp_replace(written, U&'\+10FFFF(?:0|x[0-9a-f][0-9a-f]|(\+10FFFF))', '\1#', 'g'), U&'\+10FFFF#', U&'\+10FFFF') END);

-- The bytes with each invalid UTF-8 byte replaced by U+FFFD. It halves invalid input between characters, and scans what is short.
CREATE OR REPLACE FUNCTION utf8_of(bytes BYTEA) RETURNS BYTEA LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    mended BYTEA := '';
    at INT := 0;
    half INT := length(bytes) / 2;
    size INT;
BEGIN
    PERFORM convert_from(bytes, 'UTF8');
    RETURN bytes;
EXCEPTION WHEN OTHERS THEN
    IF length(bytes) > 64 THEN
        -- A character has three bytes after its first at most, which begin with the bits 10.
        FOR n IN 1..3 LOOP
            EXIT WHEN get_byte(bytes, half) & 192 <> 128;
            half := half + 1;
        END LOOP;
        RETURN utf8_of(substr(bytes, 1, half)) || utf8_of(substr(bytes, half + 1));
    END IF;
    WHILE at < length(bytes) LOOP
        size := CASE WHEN get_byte(bytes, at) < 128 THEN 1 WHEN get_byte(bytes, at) < 224 THEN 2 WHEN get_byte(bytes, at) < 240 THEN 3 ELSE 4 END;
        BEGIN
            PERFORM convert_from(substr(bytes, at + 1, size), 'UTF8');
            mended := mended || substr(bytes, at + 1, size);
            at := at + size;
        EXCEPTION WHEN OTHERS THEN
            mended := mended || '\xefbfbd'::bytea;
            at := at + 1;
        END;
    END LOOP;
    RETURN mended;
END $$;

-- The text that bytes are, as the program writes texts. U+FFFD stands for NUL and for each byte that is no UTF-8.
CREATE OR REPLACE FUNCTION text_of(bytes BYTEA) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN replace(convert_from(bytes, 'UTF8'), U&'\+10FFFF', U&'\+10FFFF\+10FFFF');
EXCEPTION WHEN OTHERS THEN
    RETURN replace(convert_from(utf8_of(bytes), 'UTF8'), U&'\+10FFFF', U&'\+10FFFF\+10FFFF');
END $$;

-- Bytes that should be JSON; NULL: they are none. \ufffd stands for \u0000 and for half a surrogate pair, which no text here can hold.
CREATE OR REPLACE FUNCTION doc(bytes BYTEA) RETURNS JSON LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    written TEXT := text_of(bytes);
BEGIN
    IF position('\x00'::bytea IN bytes) > 0 THEN
        RETURN NULL; -- text_of has something else there
    END IF;
    IF written ~ '\\u(?:0000|[dD][89a-fA-F])' THEN
        written := regexp_replace(written,
            '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u)[dD][c-fC-F][0-9a-fA-F]{2})',
            '\1\\ufffd', 'g');
        written := regexp_replace(written, '(?<!\\)((?:\\\\)*)(\\u[dD][bB][fF]{2}\\u[dD][fF]{3})', '\1\2\2', 'g');
    END IF;
    RETURN written::json;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- What stands at a path such as $.a.b of such a document, as text: a string's own, 1 and 0 for true and false, JSON without spaces for
-- an object or array. NULL: nothing, or null.
CREATE OR REPLACE FUNCTION json_extract(document JSON, path TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    found JSON := document #> string_to_array(substr(path, 3), '.');
BEGIN
    RETURN CASE json_typeof(found)
        WHEN 'boolean' THEN CASE found::text WHEN 'true' THEN '1' ELSE '0' END
        WHEN 'object' THEN regexp_replace(found::text, '("(?:\\.|[^"\\])*")|\s+', '\1', 'g')
        WHEN 'array' THEN regexp_replace(found::text, '("(?:\\.|[^"\\])*")|\s+', '\1', 'g')
        WHEN 'null' THEN NULL
        ELSE found #>> '{}' END;
END $$;

-- The number at a path; NULL: there is none.
CREATE OR REPLACE FUNCTION json_number(document JSON, path TEXT) RETURNS NUMERIC LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    found JSON := document #> string_to_array(substr(path, 3), '.');
BEGIN
    RETURN CASE WHEN json_typeof(found) = 'number' THEN found::text::numeric END;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- A number as a double: beyond those it is infinite, and too small for one it is 0.
CREATE OR REPLACE FUNCTION double_of(n NUMERIC) RETURNS FLOAT8 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    CASE WHEN abs(n) > 1.7976931348623157e308 THEN sign(n)::float8 * 'Infinity'::float8 WHEN abs(n) < 2.2250738585072014e-308 THEN 0 ELSE n::float8 END;

-- A whole number of a column; NULL: beyond what one holds.
CREATE OR REPLACE FUNCTION bigint_of(n NUMERIC) RETURNS BIGINT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    CASE WHEN n BETWEEN -9223372036854775808 AND 9223372036854775807 THEN n::bigint END;

-- How much one time is behind another, in nanoseconds, also where that is beyond a whole number.
CREATE OR REPLACE FUNCTION difference(later BIGINT, earlier BIGINT) RETURNS FLOAT8 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    CASE WHEN later::numeric - earlier BETWEEN -9223372036854775808 AND 9223372036854775807 THEN (later - earlier)::float8 ELSE later::float8 - earlier::float8 END;

-- The type of what stands at a path, in SQLite's words; NULL: nothing.
CREATE OR REPLACE FUNCTION json_type(document JSON, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    CASE json_typeof(document #> string_to_array(substr(path, 3), '.'))
    WHEN 'string' THEN 'text'
    WHEN 'boolean' THEN document #>> string_to_array(substr(path, 3), '.')
    WHEN 'number' THEN CASE WHEN document #>> string_to_array(substr(path, 3), '.') ~ '[.eE]' THEN 'real' ELSE 'integer' END
    ELSE json_typeof(document #> string_to_array(substr(path, 3), '.')) END;

-- Whether a command failed: its exit code is there, and is not 0.
CREATE OR REPLACE FUNCTION exit_failed(document JSON) RETURNS BOOLEAN LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    coalesce(double_of(json_number(document, '$.exit_code')) <> 0, json_type(document, '$.exit_code') NOT IN ('false', 'null'));

-- The object in which a record counts. Versions and providers name the counts in several ways; package usage reads the same in Go.
CREATE OR REPLACE FUNCTION counts_of(j JSON) RETURNS JSON LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE WHEN json_type(j, '$.token_usage') = 'object' THEN j -> 'token_usage' WHEN json_type(j, '$.usage') = 'object' THEN j -> 'usage'
        WHEN json_type(j, '$.usageMetadata') = 'object' THEN j -> 'usageMetadata' ELSE '{}' END $$;

CREATE OR REPLACE FUNCTION provider_of(j JSON) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_extract(j, '$.provider'), json_extract(j, '$.meta.provider')) $$;

CREATE OR REPLACE FUNCTION request_model_of(j JSON) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_extract(j, '$.request_model'), json_extract(j, '$.meta.request_model')) $$;

CREATE OR REPLACE FUNCTION response_model_of(j JSON) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_extract(j, '$.response_model'), json_extract(j, '$.model_id'), json_extract(j, '$.meta.response_model'), json_extract(j, '$.model')) $$;

CREATE OR REPLACE FUNCTION cache_read_of(u JSON) RETURNS NUMERIC LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_number(u, '$.cache_read_input_tokens'), json_number(u, '$.cache_read_tokens'), json_number(u, '$.prompt_tokens_details.cached_tokens'),
        json_number(u, '$.input_tokens_details.cached_tokens'), json_number(u, '$.cachedContentTokenCount')) $$;

CREATE OR REPLACE FUNCTION cache_write_of(u JSON) RETURNS NUMERIC LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_number(u, '$.cache_write_input_tokens'), json_number(u, '$.cache_creation_input_tokens'), json_number(u, '$.cache_write_tokens'),
        json_number(u, '$.prompt_tokens_details.cache_write_tokens'), json_number(u, '$.input_tokens_details.cache_write_tokens')) $$;

CREATE OR REPLACE FUNCTION output_tokens_of(u JSON) RETURNS NUMERIC LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_number(u, '$.output_tokens'), json_number(u, '$.completion_tokens'),
        json_number(u, '$.candidatesTokenCount') + coalesce(json_number(u, '$.thoughtsTokenCount'), 0), json_number(u, '$.thoughtsTokenCount')) $$;

CREATE OR REPLACE FUNCTION reasoning_of(u JSON) RETURNS NUMERIC LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_number(u, '$.reasoning_output_tokens'), json_number(u, '$.reasoning_tokens'), json_number(u, '$.completion_tokens_details.reasoning_tokens'),
        json_number(u, '$.output_tokens_details.reasoning_tokens'), json_number(u, '$.output_tokens_details.thinking_tokens'), json_number(u, '$.thoughtsTokenCount')) $$;

CREATE OR REPLACE FUNCTION prompt_tokens_of(u JSON) RETURNS NUMERIC LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_number(u, '$.input_tokens'), json_number(u, '$.prompt_tokens'), json_number(u, '$.promptTokenCount') + coalesce(json_number(u, '$.toolUsePromptTokenCount'), 0)) $$;

-- Some records count cached tokens apart from the input tokens, and some among them. The total shows which. Anthropic's counts have no
-- total, and are apart.
CREATE OR REPLACE FUNCTION input_tokens_of(u JSON) RETURNS NUMERIC LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE WHEN json_number(u, '$.total_tokens') - output_tokens_of(u) - prompt_tokens_of(u) = coalesce(cache_read_of(u), 0) + coalesce(cache_write_of(u), 0)
         THEN json_number(u, '$.total_tokens') - output_tokens_of(u)
         WHEN json_number(u, '$.total_tokens') IS NULL AND json_number(u, '$.input_tokens') + json_number(u, '$.cache_creation_input_tokens') IS NOT NULL
         THEN prompt_tokens_of(u) + coalesce(cache_read_of(u), 0) + coalesce(cache_write_of(u), 0) ELSE prompt_tokens_of(u) END $$;

CREATE OR REPLACE FUNCTION cost_of(j JSON, u JSON) RETURNS FLOAT8 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(double_of(json_number(j, '$.cost_usd')), double_of(json_number(u, '$.cost_usd'))) $$;
