// Package salvage copies the rows that are intact on the pages of a damaged file into a new file
// that has its schema.
package salvage
