package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"

	"selvedge/db"
)

// resident is the memory of a process, in bytes: all of it (VmRSS), and what it holds for itself
// (RssAnon), without the pages of the program's own file, which every copy of it shares.
type resident struct {
	IdleRSS int64 `json:"idle_rss"`
	Idle    int64 `json:"idle"`
	Full    int64 `json:"full"`
	Readers int64 `json:"readers"`
}

// childMemory opens the file, and then fills the page cache of every reading connection.
func childMemory(ctx context.Context, path string) error {
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 4))
	readers := runtime.GOMAXPROCS(0)
	d, err := db.Open(ctx, path, db.Options{Readers: readers})
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	r := resident{Readers: int64(readers)}
	if r.IdleRSS, r.Idle, err = residentNow(); err != nil {
		return err
	}
	if err := readAll(ctx, d, readers); err != nil {
		return err
	}
	if _, r.Full, err = residentNow(); err != nil {
		return err
	}
	return errors.Join(reply(r), d.Close())
}

// readAll has every reading connection read all records at the same time.
func readAll(ctx context.Context, d *db.DB, readers int) error {
	failed := make([]error, readers)
	var begun, ended sync.WaitGroup
	begun.Add(readers)
	for i := range readers {
		ended.Go(func() {
			failed[i] = d.Read(ctx, "read all", func(rx *db.Rx) error {
				begun.Done()
				begun.Wait() // so that no connection serves two
				var sum int64
				return rx.Get(&sum, "SELECT sum(length(output)) FROM run_records")
			})
		})
	}
	ended.Wait()
	return errors.Join(failed...)
}

// residentNow returns the memory of this process, once Go has returned what it does not use.
func residentNow() (all, own int64, err error) {
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	return residentOf(status)
}

// residentOf reads /proc/PID/status.
func residentOf(status []byte) (all, own int64, err error) {
	for name, into := range map[string]*int64{"VmRSS:": &all, "RssAnon:": &own} {
		_, behind, found := bytes.Cut(status, []byte("\n"+name))
		value, _, whole := bytes.Cut(behind, []byte(" kB\n"))
		if !found || !whole {
			return 0, 0, fmt.Errorf("/proc/self/status has no %s", name)
		}
		kb, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		*into = kb << 10
	}
	return all, own, nil
}

// memory measures a process that has a file of 40 MB open.
func memory(ctx context.Context, b *bench) ([]result, error) {
	s, err := b.stage(ctx, "memory", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	if err := s.close(s.fillWAL(ctx)); err != nil {
		return nil, err
	}
	var all, idle, each []float64
	for range b.rounds {
		c, err := startChild(ctx, "memory", filepath.Join(s.dir, "selvedge.db"))
		if err != nil {
			return nil, err
		}
		var r resident
		if err := errors.Join(c.send("go"), c.finish(&r)); err != nil {
			return nil, err
		}
		all = append(all, float64(r.IdleRSS))
		idle = append(idle, float64(r.Idle))
		each = append(each, float64(r.Full-r.Idle)/float64(r.Readers))
	}
	return []result{
		megabytes("memory of a process with an open file, idle, all of it (VmRSS)", median(all), 12),
		megabytes("the same, its own pages alone (RssAnon)", median(idle), 12),
		megabytes("memory of each connection whose cache is full", median(each), 5),
	}, nil
}

func megabytes(row string, bytes, target float64) result {
	mb := bytes / 1e6
	return result{
		row: row, ours: fmt.Sprintf("%.1f MB", mb), target: fmt.Sprintf("<= %g MB", target),
		met: verdict(mb <= target),
	}
}
