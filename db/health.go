package db

import (
	"context"
	"time"
)

// Health is how the file is doing at the moment, and who keeps others waiting.
type Health struct {
	Writing string // why of the call that has this handle's writer; "" when it is idle
	Waiting int    // calls of this handle that wait for the writer
	HeldBy  []int  // process ids of others that have it meanwhile; nil where nobody waits, or the system doesn't tell

	LongestRead    string        // why of this handle's read that began first; "" when there is none. While it goes on the WAL grows
	LongestReadFor time.Duration // how long it has been going on
	Readers        []int         // process ids of others that read at the moment; nil where the system doesn't tell

	FileBytes int64
	WALBytes  int64 // size of the -wal file: at most 64 MB unless a read takes longer than 5 s
	PageSize  int64 // bytes
	Pages     int64
	FreePages int64 // what deletions freed; it goes back to the disk within a minute
	DiskFree  int64 // bytes
	// Full: a deletion had to use the reserve of the full disk. Until there is room again, Write returns ErrFull, and only
	// Reclaim goes on.
	Full bool
}

// Health looks at the file and at the calls under way. It takes a reading connection for a moment.
func (d *DB) Health(ctx context.Context) (Health, error) {
	if d.callbacks.Inside() {
		return Health{}, nested("health")
	}
	h, err := d.engine.Health(ctx)
	return Health(h), wrap("health", err)
}
