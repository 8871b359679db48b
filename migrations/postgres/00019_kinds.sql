-- +goose Up
ALTER TABLE import_sources DROP CONSTRAINT import_sources_kind_check, ADD CONSTRAINT import_sources_kind_check CHECK (kind <> '');
ALTER TABLE import_conflicts DROP CONSTRAINT import_conflicts_kind_check, ADD CONSTRAINT import_conflicts_kind_check CHECK (kind <> '');

-- +goose Down
ALTER TABLE import_sources DROP CONSTRAINT import_sources_kind_check,
    ADD CONSTRAINT import_sources_kind_check CHECK (kind IN ('runs', 'agents', 'checkpoints', 'workers', 'live'));
ALTER TABLE import_conflicts DROP CONSTRAINT import_conflicts_kind_check,
    ADD CONSTRAINT import_conflicts_kind_check CHECK (kind IN ('agents', 'checkpoints'));
