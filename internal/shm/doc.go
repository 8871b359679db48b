// Package shm makes SQLite's locks on the -shm file safe from failing lock calls.
//
// SQLite treats any failed lock call as a lock that is taken: a reader then retries for ten
// seconds whatever its context says, and a writer without end. It ignores a failed unlock, but
// its list of this process's locks, which all connections to the file share, keeps that lock
// until the last of them is closed. So this package gives SQLite a fcntl that retries, that
// distinguishes a failure from a lock that is taken, and that releases later the locks that could
// not be released at once. Until then the kernel may have more locks than SQLite believes, and
// never fewer. Decision 0015.
//
// It also has a checkpoint copy the whole WAL again after the sync of the database failed. Decision 0011.
package shm
