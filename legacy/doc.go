// Package legacy brings trees of the old programs into a file and out again: [Import], [Verify] and
// [Export], for five kinds of tree, and [Recognise], which finds out what lies in a folder.
//
// Three books are kept in the file. The ledger says, for every file of every folder that was
// imported, how far it was read, the hash of what was read and what became of it. Its rows are
// written in the transaction that writes the records, so that an import can be killed at any moment
// and run again, a file that has grown is picked up where it was left, and one that has changed is
// recognised. The quarantine keeps what could not be read or could not be taken, with file, offset,
// reason and the bytes. The journal says of every import who made it, when, with what program, and
// what came of it.
//
// A folder is known by its kind, its scope and its absolute path, links resolved. The folder itself
// is never written to.
//
// # Caveats
//
// Of two imports of one folder at the same time the second ends at once with [db.ErrBusy]. A line
// longer than 512 MiB can't be kept; its file is reported and taken up to that line.
package legacy
