-- The file itself: which of the files that had its name it is, and whose views stand in it. Scopes with checksums.

-- +goose Up
ALTER TABLE selvedge_file ADD COLUMN generation INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0); -- drawn when the file was made or migrated to this version, and anew when a backup is restored; a cursor of another generation has expired
ALTER TABLE selvedge_file ADD COLUMN views_digest TEXT NOT NULL DEFAULT ''; -- SHA-256 of the script that made the v_ views, in hex; '': there are none. It takes the place of views_version, which nobody reads any more
ALTER TABLE selvedge_file ADD COLUMN views TEXT NOT NULL DEFAULT ''; -- the names of the views that the script made, with a space between each: all other views are the user's

-- 62 random bits, and never 0, which is said of files without one.
UPDATE selvedge_file SET generation = (random() & 0x3fffffffffffffff) | 1;

ALTER TABLE scopes ADD COLUMN checksum INTEGER; -- CRC-32C of name; NULL: from before there were checksums
UPDATE scopes SET checksum = 737421180 WHERE id = 1 AND name = '';

-- +goose Down
ALTER TABLE scopes DROP COLUMN checksum;
ALTER TABLE selvedge_file DROP COLUMN views;
ALTER TABLE selvedge_file DROP COLUMN views_digest;
ALTER TABLE selvedge_file DROP COLUMN generation;
