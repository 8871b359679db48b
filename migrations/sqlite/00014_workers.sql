-- Worker runtimes: what makes an input repeatable where its outcome was unknown, and checksums.

-- +goose Up
ALTER TABLE worker_events RENAME COLUMN at TO recorded_at;
ALTER TABLE worker_entries RENAME COLUMN at TO recorded_at;
ALTER TABLE worker_diagnostics RENAME COLUMN at TO recorded_at;

ALTER TABLE worker_entries ADD COLUMN batch INTEGER; -- number of the call that accepted the entry, by which a repeat of it is known; NULL: imported, or from before there were such numbers
ALTER TABLE worker_entries ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: from before there were checksums
ALTER TABLE worker_events ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in worker_entries
ALTER TABLE worker_diagnostics ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in worker_entries
ALTER TABLE worker_requests ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in worker_entries
ALTER TABLE worker_runtime_documents ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in worker_entries
ALTER TABLE worker_documents ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in worker_entries
ALTER TABLE workers ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it, key excepted; NULL: not written to since there are checksums
ALTER TABLE worker_runtimes ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it but key, next_event_id and next_event_position; NULL: as in workers

-- +goose Down
ALTER TABLE worker_runtimes DROP COLUMN checksum;
ALTER TABLE workers DROP COLUMN checksum;
ALTER TABLE worker_documents DROP COLUMN checksum;
ALTER TABLE worker_runtime_documents DROP COLUMN checksum;
ALTER TABLE worker_requests DROP COLUMN checksum;
ALTER TABLE worker_diagnostics DROP COLUMN checksum;
ALTER TABLE worker_events DROP COLUMN checksum;
ALTER TABLE worker_entries DROP COLUMN checksum;
ALTER TABLE worker_entries DROP COLUMN batch;
ALTER TABLE worker_diagnostics RENAME COLUMN recorded_at TO at;
ALTER TABLE worker_entries RENAME COLUMN recorded_at TO at;
ALTER TABLE worker_events RENAME COLUMN recorded_at TO at;
