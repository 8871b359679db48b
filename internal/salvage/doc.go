// Package salvage brings the rows that lie whole on the pages of a damaged file into a new one that
// has its schema.
package salvage
