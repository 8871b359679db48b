-- +goose Up
CREATE TABLE import_settings (
    source   BIGINT PRIMARY KEY REFERENCES import_sources (id) ON DELETE CASCADE,
    raw      BYTEA  NOT NULL,
    checksum BIGINT
);

-- +goose Down
DROP TABLE import_settings;
