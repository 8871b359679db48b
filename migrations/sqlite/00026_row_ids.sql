-- Nothing for a file, whose primary keys take a text of any length. A server's don't: see the twin in migrations/postgres.
-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
