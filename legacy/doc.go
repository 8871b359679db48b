// Package legacy imports, verifies and exports the trees of the old programs: [Import], [Verify]
// and [Export], for five kinds of tree. [Recognise] finds the trees that a folder holds.
//
// The database keeps three records of this. The ledger has a row for each file of each imported
// folder: how far the file was read, the hash of that part, and the result. Its rows are written in
// the same transaction as the records. So an import can be killed at any moment and run again; it
// continues a file that has grown, and detects a file that has changed. The quarantine keeps what
// could not be read or imported, with file, offset, reason and bytes. The journal records of each
// import who ran it, when, with which program, and how it ended.
//
// A folder is identified by its kind, its scope and its absolute path, links resolved. An import
// never writes to it.
//
// # Caveats
//
// The second of two simultaneous imports of one folder fails at once with [db.ErrBusy]. A line
// longer than 512 MiB can't be kept: its file is reported, and imported up to that line.
package legacy
