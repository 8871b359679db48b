-- The file itself: who may read and write it, the scopes that share it, the processes that own claims in it.

-- +goose Up
-- One row: what the file says of itself.
-- +goose StatementBegin
CREATE TABLE selvedge_file (
    id            INTEGER NOT NULL PRIMARY KEY CHECK (id = 1), -- one row
    min_reader    INTEGER NOT NULL,                            -- lowest schema version of a program that may read this file
    min_writer    INTEGER NOT NULL,                            -- lowest schema version of a program that may write it
    views_version INTEGER NOT NULL,                            -- version of the v_ views
    created_at    INTEGER NOT NULL                             -- Unix nanoseconds
) STRICT;
-- +goose StatementEnd

INSERT INTO selvedge_file (id, min_reader, min_writer, views_version, created_at)
VALUES (1, 1, 1, 0, CAST(strftime('%s', 'now') AS INTEGER) * 1000000000);

-- The homes that share the file: what a root folder was to an old store.
-- +goose StatementBegin
CREATE TABLE scopes (
    id   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- number of the scope, first in every key
    name TEXT    NOT NULL UNIQUE                     -- as the program names it; '' is the default
) STRICT;
-- +goose StatementEnd

INSERT INTO scopes (id, name) VALUES (1, '');

-- The processes that hold claims, each from its first claim until nothing refers to it.
-- +goose StatementBegin
CREATE TABLE owners (
    id            INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- also the byte of FILE-owners that the process holds locked while it lives
    token         BLOB    NOT NULL UNIQUE CHECK (length(token) = 16), -- made by the process when it started
    pid           INTEGER NOT NULL,                           -- process id, for people: it can be reused
    boot_id       TEXT,                                       -- of the machine's start; NULL where the system has none
    program       TEXT    NOT NULL,                           -- base name of the executable
    registered_at INTEGER NOT NULL                            -- Unix nanoseconds of the process's first claim in this file
) STRICT;
-- +goose StatementEnd

-- +goose Down
DROP TABLE owners;
DROP TABLE scopes;
DROP TABLE selvedge_file;
