-- What the old programs keep beside their trees.

-- +goose Up
-- The settings beside a tree, whole: a way back needs those, too, that no store has a use for.
-- +goose StatementBegin
CREATE TABLE import_settings (
    source   INTEGER NOT NULL PRIMARY KEY REFERENCES import_sources (id) ON DELETE CASCADE, -- the tree
    raw      BLOB    NOT NULL, -- runs: config.toml as it was when it was imported last; its limits are in retention
    checksum INTEGER           -- CRC-32C of the columns before it; NULL: changed by hand
) STRICT;
-- +goose StatementEnd

-- +goose Down
DROP TABLE import_settings;
