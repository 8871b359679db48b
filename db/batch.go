package db

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync/atomic"
)

// batches numbers the write transactions of this process, from a random number on, so that no other process's are the same.
var batches = func() *atomic.Int64 {
	var from [8]byte
	_, _ = rand.Read(from[:]) // never fails
	n := new(atomic.Int64)
	n.Store(int64(binary.LittleEndian.Uint64(from[:]) >> 2))
	return n
}()

// Batch is a number that no other Write has, the same each time that its function runs. Stores write it into the rows that
// they append, so that a call whose outcome is unknown can be repeated: see BatchOf.
func (tx *Tx) Batch() int64 { return batches.Add(1) }

// BatchOf gives the Tx.Batch of the Write that failed with ErrOutcomeUnknown. A repeat that is given it does nothing where
// the first try was kept after all.
func BatchOf(err error) (batch int64, ok bool) {
	var e interface{ Batch() int64 }
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Batch(), true
}
