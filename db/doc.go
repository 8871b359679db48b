// Package db opens the file and is the only way to it: Read and Write run a function in a
// transaction, and everything else that Selvedge does goes through the two.
//
// It promises that what Write acknowledged is kept (power cuts included, unless Options.Synchronous
// says otherwise), that no caller sees "database is locked" before its own context ends, that
// processes get their turns fairly, and that a function which fails, panics or leaves undoes its
// own changes and nobody else's.
//
// # What lies beside the file
//
// FILE-wal and FILE-shm are SQLite's. FILE-lock is held shared by every open handle, and
// exclusively by a migration that shuts older programs out and by whoever swaps the file.
// FILE-queue gives the writing processes their turns. FILE-reserve is 4 MiB for the day on which
// the disk is full: see Reclaim. The last three hold no data. Those that are only locked have the
// file's mode, owner and group, and are made again where somebody deletes them.
//
// A process that holds claims has a byte of the file itself locked while it lives, far behind the
// last page. The file has one name: a hard link, or a mount of the file alone, is refused for
// writing (Options.AllowLinks), and so is a file that was removed, renamed or replaced while it was
// open (ErrReplaced).
//
// # Caveats
//
// Linux and macOS only: the locks are flock and open file description locks. One host only: WAL
// needs shared memory, so network file systems are refused. Don't open the file yourself inside a
// process that uses it (to copy or hash it): closing any descriptor of it drops SQLite's locks; use
// Backup. A function given to Write that waits for another goroutine which itself calls Write waits
// for ever.
package db
