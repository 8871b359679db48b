// Package damage finds damage in an SQLite file, and restores the parts of its schema that can be
// made again. Its callers pass a connection and what the file should hold; opening, locks and
// versions are the work of package sqlite.
package damage
