// Package db opens the file and is the only way to it: Read and Write run a function in a
// transaction, and every other part of Selvedge uses the two.
//
// What Write acknowledged is durable: with SyncFull, the default, even after a power cut. No caller
// sees "database is locked" before its own context ends. Processes take turns fairly. A function
// that fails, panics or calls runtime.Goexit undoes its own changes and no others.
//
// # Files
//
// FILE-wal and FILE-shm belong to SQLite. Every open handle holds a shared lock on FILE-lock; a
// migration that excludes older programs, and anything that replaces the file, lock it exclusively.
// FILE-queue orders the turns of writing processes. FILE-reserve is 4 MiB for the case of a full
// disk: see Reclaim. The last three hold no data. Lock files have the file's mode, owner and group,
// and are created again if they are deleted.
//
// A process that holds claims keeps one byte of the file itself locked, far beyond the last page.
// The file has one name: a hard link, or a mount of the file alone, is refused for writing
// (Options.AllowLinks), and so is a file that was removed, renamed or replaced while it was open
// (ErrReplaced).
//
// # Caveats
//
// Linux and macOS only: the locks are flock and open file description locks. One host only: WAL
// needs shared memory, so network file systems are refused. Don't open the file yourself in a
// process that uses it (to copy or hash it): closing any descriptor of it drops SQLite's locks. Use
// Backup instead. A function passed to Write must not wait for a goroutine that calls Write: it
// would wait forever.
package db
