//go:build postgres

package dbtest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A PostgresDisk is a server that a test has for itself, with all that it writes on a small disk.
type PostgresDisk struct {
	Address string
	place   *postgresPlace
}

// NewPostgresDisk starts one. size is the disk's, as mount has it.
func NewPostgresDisk(t testing.TB, root, size string) *PostgresDisk {
	t.Helper()
	place := newPostgresPlace(t, root)
	mountSmall(t, place.dir, "mode=711,size="+size)
	t.Cleanup(func() { // a backend may end a moment after its server
		Await(t, "nobody uses the disk", func() bool { return unix.Unmount(place.dir, 0) == nil })
	})
	return &PostgresDisk{place.start("start", "server"), place}
}

func (d *PostgresDisk) filler() string { return filepath.Join(d.place.dir, "filler") }

// Fill leaves no room on it.
func (d *PostgresDisk) Fill() {
	d.place.t.Helper()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.place.t.Fatal(err)
	}
	if _, err := io.Copy(f, zeros{}); !errors.Is(err, unix.ENOSPC) {
		d.place.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		d.place.t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Empty makes room again.
func (d *PostgresDisk) Empty() {
	d.place.t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		d.place.t.Fatal(err)
	}
}

// End fills the disk with WAL until the server ends, as servers do that can't write any.
func (d *PostgresDisk) End() {
	d.place.t.Helper()
	Await(d.place.t, "the server ends", func() bool {
		if _, err := os.Stat(filepath.Join(d.place.dir, "server", "data", "postmaster.pid")); err != nil {
			return true
		}
		d.Fill()
		_, _ = postgresExec(d.Address, "SELECT count(pg_logical_emit_message(false, 'test', repeat('x', "+
			"1000000))) FROM generate_series(1, 20)")
		return false
	})
}

// Again starts the server that has ended.
func (d *PostgresDisk) Again() { d.place.run("again", filepath.Join(d.place.dir, "server")) }
