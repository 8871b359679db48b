// Package postgres implements engine.Engine on a PostgreSQL server, from version 15 on: see
// docs/postgres.md. It speaks to the server through pgconn alone, so that it controls BEGIN,
// COMMIT and what is sent when a context ends.
package postgres
