package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/db"
)

// realDisk refuses a file system in memory: its fsync costs nothing.
func realDisk(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return err
	}
	if stat.Type == unix.TMPFS_MAGIC || stat.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is in memory; choose a folder on a disk with -dir", dir)
	}
	return nil
}

// describe prints what was measured, where and when.
func describe(ctx context.Context, w io.Writer, b *bench) error {
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		return err
	}
	s, err := d.Stats(ctx)
	if err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return err
	}
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return err
	}
	size := "full size"
	if b.quick {
		size = "quick look"
	}
	_, err = fmt.Fprintf(w, "%s, %s, %d rounds; %s, %s; %s %s, %d cores, load average %s\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), size, b.rounds, runtime.Version(), s.Engine,
		unix.ByteSliceToString(uname.Sysname[:]), unix.ByteSliceToString(uname.Release[:]), runtime.NumCPU(),
		loadAverage())
	return err
}

// loadAverage tells whether others used the machine.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
