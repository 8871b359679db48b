// Package damage looks for damage in an SQLite file and mends of its schema what can be made again.
// It is given a connection and what the file should have; opening, locks and versions are package
// sqlite's.
package damage
