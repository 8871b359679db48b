// Package shm makes SQLite's locks on the -shm file safe from lock calls that fail.
//
// SQLite takes a lock call that failed, whatever the reason, for one that found the lock taken: a
// reader then tries again for ten seconds whatever its context says, and a writer for ever. Of an
// unlock that failed it takes no notice, but its list of this process's locks, which all
// connections to the file share, keeps that one until the last of them is closed. So it is given a
// fcntl that tries again, that tells a failure from a lock that is taken, and that gives back later
// what could not be given back at once. Meanwhile the kernel may know of more locks than SQLite,
// and never of fewer. Decision 0015.
package shm
