// Package shm makes SQLite's locks on the -shm file safe from failing lock calls.
//
// SQLite takes any failed lock call for one that found the lock taken: a reader then tries again
// for ten seconds whatever its context says, and a writer without end. It ignores a failed unlock,
// but its list of this process's locks, which all connections to the file share, keeps that lock
// until the last of them is closed. So this package gives it a fcntl that retries, that tells a
// failure from a lock that is taken, and that gives back later what could not be given back at
// once. Meanwhile the kernel may know of more locks than SQLite, and never of fewer. Decision 0015.
package shm
