-- State: values under keys, such as the state of an application or of a user.

-- +goose Up
-- The values, one row each: only the last write is kept.
-- +goose StatementBegin
CREATE TABLE state_values (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the row in this file, never used again
    scope      INTEGER NOT NULL REFERENCES scopes (id),    -- the scope that the value belongs to
    owner      TEXT    NOT NULL,                           -- whose value it is: a user, an agent, whatever the program names; '': nobody's
    state_key  TEXT    NOT NULL CHECK (state_key <> ''),   -- name of the value, one per owner
    value      TEXT    NOT NULL,                           -- JSON, byte for byte as it was set
    updated_at INTEGER NOT NULL,                           -- Unix nanoseconds of the last write
    changes    INTEGER NOT NULL CHECK (changes >= 1),      -- writes of the value since the row was added
    checksum   INTEGER,                                    -- CRC-32C of scope to updated_at; NULL: changed by hand
    UNIQUE (scope, owner, state_key)
) STRICT;
-- +goose StatementEnd
-- Values of any owner by the beginning of their key.
CREATE INDEX state_values_by_key ON state_values (scope, state_key, owner);
-- Retention.
CREATE INDEX state_values_by_age ON state_values (scope, updated_at, id);

-- +goose Down
DROP TABLE state_values;
