// Package soak has a database used for a long time: callers, readers, followers, retention, backups
// and checks, at a volume that stays the same. Its test judges that nothing grows: not the file, its
// WAL, the memory, the goroutines or the descriptors of the process. `make soak` runs it for 20
// minutes and draws docs/soak.svg.
package soak
