// Package legacy imports, verifies and exports the trees of the old programs: [Import], [Verify] and
// [Export], for five kinds of tree. [Recognise] finds out which trees a folder holds.
//
// The database keeps three records of this. The ledger has a row for each file of each folder that
// was imported: how far it was read, the hash of that part, and what became of it. Its rows are
// written in the transaction that writes the records. So an import can be killed at any moment and
// run again, goes on where it left a file that has grown, and detects a file that has changed. The
// quarantine keeps what could not be read or imported, with file, offset, reason and bytes. The
// journal says of each import who ran it, when, with which program, and how it ended.
//
// A folder is identified by its kind, its scope and its absolute path, links resolved. An import
// never writes to it.
//
// # Caveats
//
// The second of two simultaneous imports of one folder fails at once with [db.ErrBusy]. A line
// longer than 512 MiB can't be kept: its file is reported, and imported up to that line.
package legacy
