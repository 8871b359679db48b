-- A primary key takes no expression, so the keys of step 21 are unique indexes. Logical replication and tools for single rows need a
-- primary key in every table: a number that only the server knows. An identity in ADD COLUMN would write the table anew, and a snapshot
-- from before would see it empty; so an UPDATE numbers the rows.
-- +goose Up
ALTER TABLE import_files ADD COLUMN row_id BIGINT;
UPDATE import_files AS t SET row_id = n.row_id FROM (SELECT ctid AS place, row_number() OVER () AS row_id FROM import_files) AS n WHERE t.ctid = n.place;
ALTER TABLE import_files ALTER COLUMN row_id SET NOT NULL;
ALTER TABLE import_files ALTER COLUMN row_id ADD GENERATED ALWAYS AS IDENTITY, ADD CONSTRAINT import_files_row_id PRIMARY KEY (row_id);
SELECT setval('import_files_row_id_seq', (SELECT count(*) + 1 FROM import_files), false);

ALTER TABLE live_copies ADD COLUMN row_id BIGINT;
UPDATE live_copies AS t SET row_id = n.row_id FROM (SELECT ctid AS place, row_number() OVER () AS row_id FROM live_copies) AS n WHERE t.ctid = n.place;
ALTER TABLE live_copies ALTER COLUMN row_id SET NOT NULL;
ALTER TABLE live_copies ALTER COLUMN row_id ADD GENERATED ALWAYS AS IDENTITY, ADD CONSTRAINT live_copies_row_id PRIMARY KEY (row_id);
SELECT setval('live_copies_row_id_seq', (SELECT count(*) + 1 FROM live_copies), false);

ALTER TABLE run_spent_keys ADD COLUMN row_id BIGINT;
UPDATE run_spent_keys AS t SET row_id = n.row_id FROM (SELECT ctid AS place, row_number() OVER () AS row_id FROM run_spent_keys) AS n WHERE t.ctid = n.place;
ALTER TABLE run_spent_keys ALTER COLUMN row_id SET NOT NULL;
ALTER TABLE run_spent_keys ALTER COLUMN row_id ADD GENERATED ALWAYS AS IDENTITY, ADD CONSTRAINT run_spent_keys_row_id PRIMARY KEY (row_id);
SELECT setval('run_spent_keys_row_id_seq', (SELECT count(*) + 1 FROM run_spent_keys), false);

-- +goose Down
ALTER TABLE run_spent_keys DROP COLUMN row_id;
ALTER TABLE live_copies DROP COLUMN row_id;
ALTER TABLE import_files DROP COLUMN row_id;
