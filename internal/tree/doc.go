// Package tree is what importing, verifying and exporting have in common, whatever the tree: the
// walk over its files, the ledger of what was imported from where, the quarantine, the report, and
// the three calls that bring a tree in, compare it and write it out. What is special to a kind of
// tree is a [Layout], each in a room of its own beside this one.
package tree
