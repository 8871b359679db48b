// Package lock holds the locks between processes: a handle's hold on the file, the turns of the
// writing processes, and the byte that a process keeps locked while it lives.
package lock
