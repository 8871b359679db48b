// Package sqlite is the engine of package db on one WAL-mode SQLite file: a writing connection that
// concurrent callers share, a pool of reading ones, the turns among processes, the migrations, and
// the care of the file.
//
// Package db documents the files beside the database.
package sqlite
