package db

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"selvedge/migrations"
)

// What the tests of package db_test need from the inside.

// Limits of the writer.
const (
	MaxGroup        = maxGroup
	WALRestartPages = walRestartPages
)

// PretendFilesystem makes every path lie on a file system with this f_type for the length of a test.
func PretendFilesystem(t *testing.T, kind int64) {
	real := statfsType
	statfsType = func(string) (int64, error) { return kind, nil }
	t.Cleanup(func() { statfsType = real })
}

// WriterPragma runs a pragma on the writing connection, between transactions.
func (d *DB) WriterPragma(t *testing.T, text string) string {
	t.Helper()
	var got string
	if err := d.Write(t.Context(), "pragma", func(tx *Tx) error { return tx.Get(&got, "PRAGMA "+text) }); err != nil {
		t.Fatal(err)
	}
	return got
}

// Waiting is the number of callers in the writer's queue.
func (d *DB) Waiting() int {
	d.writer.mu.Lock()
	defer d.writer.mu.Unlock()
	return len(d.writer.pending)
}

// ReaderPragmas reads the settings of a reading connection.
func (d *DB) ReaderPragmas(ctx context.Context) (map[string]string, error) {
	got := map[string]string{}
	err := d.Read(ctx, "pragmas", func(rx *Rx) error {
		for _, p := range pragmas(roleReader, d.options.Synchronous) {
			var v string
			if err := rx.Get(&v, "PRAGMA "+p.name); err != nil {
				return err
			}
			got[p.name] = v
		}
		return nil
	})
	return got, err
}

// WithLadder replaces the program's schema versions.
func (o Options) WithLadder(files fs.FS, steps []migrations.Step, views string, viewsVersion int64) Options {
	o.ladder = &ladder{files: files, steps: steps, views: views, viewsVersion: viewsVersion}
	return o
}

// Closing reports whether the writer refuses new calls.
func (d *DB) Closing() bool {
	d.writer.mu.Lock()
	defer d.writer.mu.Unlock()
	return d.writer.closing
}

// WithoutWriteNotices makes the system tell nothing of writes, as macOS does, until the test has ended.
func WithoutWriteNotices(t testing.TB) {
	before := watchWrites
	watchWrites = func(string) (*fileWrites, error) { return nil, errors.ErrUnsupported }
	t.Cleanup(func() { watchWrites = before })
}
