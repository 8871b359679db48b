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

// Batch is a number that no other Write has, the same each time that its function asks and each time that it runs. Stores
// write it into the rows that they append, so that a call whose outcome is unknown can be repeated: see BatchOf.
func (tx *Tx) Batch() int64 {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.call.number == 0 {
		tx.call.number = batches.Add(1)
	}
	return tx.call.number
}

// BatchOf gives the Tx.Batch of the Write that failed with ErrOutcomeUnknown. A repeat that is given it does nothing where
// the first try was kept after all. It reports false for other errors, and where the function of that Write asked for none.
func BatchOf(err error) (batch int64, ok bool) {
	if b, ok := errors.AsType[*batched](err); ok {
		return b.number, true
	}
	return 0, false
}

// batched is an error of a Write that has a number.
type batched struct {
	error
	number int64
}

func (b *batched) Unwrap() error { return b.error }

func (c *call) numbered(err error) error {
	if c.number == 0 || !errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return &batched{error: err, number: c.number}
}
