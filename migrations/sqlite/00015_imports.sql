-- Checksums of what imports keep, and of the keys of appends.

-- +goose Up
ALTER TABLE import_sources ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it but id; NULL: not written to since there are checksums
ALTER TABLE import_files ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in import_sources
ALTER TABLE quarantine ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it but id and bytes; NULL: as in import_sources
ALTER TABLE quarantine_parts ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: as in import_sources
ALTER TABLE run_append_keys ADD COLUMN checksum INTEGER; -- CRC-32C of append_key and digest; NULL: from before there were checksums
ALTER TABLE run_spent_keys ADD COLUMN checksum INTEGER; -- the checksum that the row had in run_append_keys; NULL: it had none
ALTER TABLE live_append_keys ADD COLUMN checksum INTEGER; -- CRC-32C of the columns before it; NULL: from before there were checksums

-- +goose Down
ALTER TABLE live_append_keys DROP COLUMN checksum;
ALTER TABLE run_spent_keys DROP COLUMN checksum;
ALTER TABLE run_append_keys DROP COLUMN checksum;
ALTER TABLE quarantine_parts DROP COLUMN checksum;
ALTER TABLE quarantine DROP COLUMN checksum;
ALTER TABLE import_files DROP COLUMN checksum;
ALTER TABLE import_sources DROP COLUMN checksum;
