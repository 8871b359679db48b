-- +goose Up
CREATE TABLE live_leavings (
    run      BIGINT PRIMARY KEY,
    owner_id BIGINT REFERENCES owners (id)
);
CREATE INDEX live_leavings_by_owner ON live_leavings (owner_id) WHERE owner_id IS NOT NULL;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION live_runs_delete_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM live_leavings WHERE run = OLD.key) THEN
        DELETE FROM live_events WHERE id >= OLD.key << 32 AND id < (OLD.key + 1) << 32;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose Down
DELETE FROM live_events WHERE id >> 32 IN (SELECT run FROM live_leavings);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION live_runs_delete_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM live_events WHERE id >= OLD.key << 32 AND id < (OLD.key + 1) << 32;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TABLE live_leavings;
