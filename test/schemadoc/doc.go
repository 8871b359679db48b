// Package schemadoc makes docs/SCHEMA.md: it opens a fresh file and writes down what is in it, with
// the comments that the migrations put beside each column. Nothing is described twice, so nothing
// can be out of date.
//
// What explains what:
//
//   - a comment inside CREATE TABLE or CREATE VIEW, the column that it follows;
//   - a comment inside or behind ALTER TABLE … ADD COLUMN, the new column; it may go on in indented lines.
//     Where there is none, the comment above the statement;
//   - a comment "-- table.column: text" in a later migration, the column, in place of what was said before;
//   - a comment above a CREATE statement, the table, index, trigger or view; what it says of NULL holds for
//     all columns that say nothing else;
//   - the comment at the head of a migration, the chapter of the tables that it made.
//
// To make the page anew: make generate.
package schemadoc
