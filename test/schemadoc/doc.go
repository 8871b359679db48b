// Package schemadoc makes docs/SCHEMA.md: it opens a fresh file and writes down what is in it,
// with the comments that the migrations have beside each column. Nothing is described twice, so
// nothing can be out of date.
//
// Which comment explains what:
//
//   - a comment inside CREATE TABLE or CREATE VIEW, the column that it follows;
//   - a comment inside or behind ALTER TABLE … ADD COLUMN, the new column; it may go on in
//     indented lines. If there is none, the comment above the statement;
//   - a comment "-- table.column: text" in a later migration, the column, instead of its earlier
//     comment;
//   - a comment above a CREATE statement, the table, index, trigger or view; its remarks on NULL
//     hold for all columns without remarks of their own;
//   - the comment at the head of a migration, the chapter of the tables that it made.
//
// To make the page again: make generate.
package schemadoc
