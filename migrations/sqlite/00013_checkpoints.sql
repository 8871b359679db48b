-- Recovery looks at claims alone; the clocks of their leases, and checksums.

-- +goose Up
-- The claims: what recovery goes through, however many runs wait.
CREATE INDEX checkpoints_claimed ON checkpoints (scope, run_id) WHERE state = 'claimed';

ALTER TABLE checkpoints ADD COLUMN lease_time_ns INTEGER; -- inode of the time namespace that lease_until counts in, 0 where the system has none; NULL: no lease
ALTER TABLE checkpoints ADD COLUMN lease_wall_until INTEGER; -- Unix nanoseconds at which the claim may be taken away by the wall clock; the lock of its process decides before that. NULL: no lease
ALTER TABLE checkpoints ADD COLUMN row_checksum INTEGER; -- CRC-32C of scope, run_id and the columns from paused_stage_id to problem; NULL: not saved since there are checksums
ALTER TABLE checkpoint_documents ADD COLUMN checksum INTEGER; -- CRC-32C of checkpoint and document; NULL: not saved since there are checksums

-- +goose Down
ALTER TABLE checkpoint_documents DROP COLUMN checksum;
ALTER TABLE checkpoints DROP COLUMN row_checksum;
ALTER TABLE checkpoints DROP COLUMN lease_wall_until;
ALTER TABLE checkpoints DROP COLUMN lease_time_ns;
DROP INDEX checkpoints_claimed;
