package db

import (
	"errors"
	"sync"
	"time"
)

// memoryPath is the path that means a database in memory: the same code on a single connection, gone at Close.
const memoryPath = ":memory:"

// A DB is an open file. Its methods are safe for concurrent use.
type DB struct {
	path    string
	key     fileKey
	memory  bool
	options Options
	ladder  *ladder

	callbacks callbacks

	file    *fileLock // nil in memory
	writer  *writer   // nil when read-only
	readers *readers  // nil in memory
	owner   *ownership

	scopes sync.Map // name -> id, of committed rows
	watch  watch

	lookouts lookouts

	closing sync.Once
	failed  error
}

// Path is the file's absolute path, links resolved, or ":memory:".
func (d *DB) Path() string { return d.path }

// ReadOnly reports whether the handle was opened with Options.ReadOnly.
func (d *DB) ReadOnly() bool { return d.writer == nil }

// Close waits for the calls that were taken, refuses new ones with ErrClosed and closes the file. Claims of this process
// that are still open can be taken over by others from then on. A second Close returns what the first did.
func (d *DB) Close() error {
	if d.callbacks.inside() {
		return nested("close")
	}
	d.closing.Do(func() {
		d.failed = wrap("close", d.close())
		d.callbacks.giveLane()
	})
	return d.failed
}

// close ends the readers before the writer: the last connection to close removes the WAL, and a reading one can't.
func (d *DB) close() error {
	failed := d.watch.close()
	if d.writer != nil {
		failed = errors.Join(failed, d.resign())
	}
	if d.readers != nil {
		failed = errors.Join(failed, d.readers.close())
	}
	if d.writer != nil {
		failed = errors.Join(failed, d.writer.close())
		if d.writer.queue != nil {
			failed = errors.Join(failed, d.writer.queue.close())
		}
	}
	if d.owner != nil {
		failed = errors.Join(failed, d.owner.release())
	}
	if d.file != nil {
		failed = errors.Join(failed, d.file.close())
		dropFile(d.key)
	}
	return failed
}

func (d *DB) now() time.Time { return d.options.Now().UTC() }

// observedNow is the time for an Observation, and nothing when nobody observes.
func (d *DB) observedNow() time.Time {
	if d.options.Observe == nil {
		return time.Time{}
	}
	return time.Now()
}

func (d *DB) observe(r *request, out outcome) {
	if d.options.Observe == nil {
		return
	}
	o := Observation{Why: r.why, Write: r.write != nil, Err: out.err}
	if !r.began.IsZero() {
		o.Wait, o.Run = r.began.Sub(r.queued), time.Since(r.began)
	}
	d.options.Observe(o)
}
