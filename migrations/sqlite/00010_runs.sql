-- Run traces: what makes an append repeatable where its outcome was unknown, when a record was written, and checksums.

-- +goose Up
ALTER TABLE run_records ADD COLUMN batch INTEGER; -- number of the call that wrote the record, by which a repeat of it is known; NULL: not the first of its call, imported, or from before there were such numbers
ALTER TABLE run_records ADD COLUMN recorded_at INTEGER; -- Unix nanoseconds at which it was written; NULL: imported, or from before this was kept
ALTER TABLE run_records ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it, id excepted; NULL: from before there were checksums
ALTER TABLE runs ADD COLUMN checksum INTEGER; -- CRC-32C of scope and of the columns from agent_id to others; NULL: not written to since there are checksums

-- +goose Down
ALTER TABLE runs DROP COLUMN checksum;
ALTER TABLE run_records DROP COLUMN checksum;
ALTER TABLE run_records DROP COLUMN recorded_at;
ALTER TABLE run_records DROP COLUMN batch;
