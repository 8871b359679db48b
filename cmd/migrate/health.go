package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
)

type healthAnswer struct {
	Path      string `json:"path"`       // the file, absolute
	FileBytes int64  `json:"file_bytes"` // size of the file; on a server of its tables with their indexes
	// size of its -wal: at most 64 MB unless a read takes longer than 5 s. On a server of its WAL, where
	// the user may see it (pg_monitor), else 0; what follows it does not tell: that is 0, empty or false
	// there
	WALBytes int64 `json:"wal_bytes"`
	// what deletions freed in the file; it goes back to the disk within a minute while a program has the
	// file open
	FreeBytes int64 `json:"free_bytes"`
	DiskFree  int64 `json:"disk_free"` // bytes free on the disk
	Readers   []int `json:"readers"`   // process ids that read at the moment, where the system tells
	Full      bool  `json:"full"`      // the disk was full, and only ends and deletions are let through

	// only on a server: how it is doing, as far as the user may see
	Server *serverHealth `json:"server,omitempty"`
}

type serverHealth struct {
	// the user may see what the sessions of others do, as members of pg_monitor may; else oldest and what
	// is said of states, times and standbys is of its own alone
	SeesAll bool `json:"sees_all"`
	// sessions of the database that wait for a lock, the longest first
	Waits []lockWait `json:"waits"`
	// whose transaction in the database is open for longest: while it is, what was deleted since takes
	// room
	Oldest *serverSession `json:"oldest,omitempty"`
	db.ServerHealth
}

type lockWait struct {
	Session serverSession   `json:"session"`        // who waits
	Waited  float64         `json:"waited_seconds"` // for how long
	HeldBy  []serverSession `json:"held_by"`        // the sessions that have the lock, or come before
}

type serverSession struct {
	db.ServerSession
	// for how long its transaction is open; 0 where the user may not see it
	For float64 `json:"for_seconds"`
}

func asSession(s db.ServerSession) serverSession {
	return serverSession{s, s.For.Seconds()}
}

func asServer(h *db.ServerHealth) *serverHealth {
	if h == nil {
		return nil
	}
	h.Standbys, h.Slots = orEmpty(h.Standbys), orEmpty(h.Slots)
	waits := each(h.Waits, func(w db.LockWait) lockWait {
		return lockWait{asSession(w.ServerSession), w.Waited.Seconds(), each(w.HeldBy, asSession)}
	})
	return &serverHealth{h.SeesAll, waits, orNull(asSession(h.Oldest)), *h}
}

var _ = register("Care:", 60, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "health",
		Short: "Show the room that the file takes at the moment, and who reads it",
		Long: `health shows the room that the file takes at the moment, and who reads it.

Of a server it shows who waits for whose lock, the oldest open transaction, how many connections there are,
the standbys and whether commits wait for them, how far the server is from running out of transaction ids,
and what keeps its WAL. A user who is no member of pg_monitor sees less.`,
		RunE: a.on(toLook, a.health),
	}, healthAnswer{})
})

func (a *app) health(ctx context.Context, d *db.DB, _ []string) error {
	h, err := d.Health(ctx)
	if err != nil {
		return err
	}
	answer := healthAnswer{
		Path: d.Path(), FileBytes: h.FileBytes, WALBytes: h.WALBytes, FreeBytes: h.FreePages * h.PageSize,
		DiskFree: h.DiskFree, Readers: orEmpty(h.Readers), Full: h.Full, Server: asServer(h.Server),
	}
	return a.answer(answer, func() {
		facts := []string{"file", answer.Path, "size", size(h.FileBytes)}
		if h.Server != nil {
			facts = append(facts, serverFacts(h)...)
		} else {
			facts = append(facts, "WAL", size(h.WALBytes), "free", size(answer.FreeBytes),
				"free on the disk", size(h.DiskFree), "read by", cmp.Or(pids(h.Readers), "nobody"))
		}
		a.printFacts(facts...)
	})
}

// pids formats a list of processes for people.
func pids(list []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(list)), ", "), "[]")
}

// serverFacts returns the facts of a server's health for people.
func serverFacts(health db.Health) (facts []string) {
	add := func(name, format string, args ...any) { facts = append(facts, name, line(format, args...)) }
	h := health.Server
	if health.WALBytes > 0 {
		add("WAL", "%s", size(health.WALBytes))
	}
	add("connections", "%d of %d", h.Connections, h.MostConnections)
	if h.Oldest != (db.ServerSession{}) {
		add("oldest transaction", "%s", sessionName(h.Oldest))
	}
	for _, w := range h.Waits {
		add("waits", "%s", waitName(w))
	}
	add("commits wait for", "%s", standbysName(h))
	for _, s := range h.Standbys {
		add("standby", "%s, %s behind", strings.TrimSpace(s.Name+" "+s.State+" "+s.Sync), size(s.Behind))
	}
	for _, s := range h.Slots {
		add("unused slot", "%s keeps %s of WAL", s.Name, size(s.Kept))
	}
	if h.ArchiveFails != "" {
		add("archive", "refuses %s", h.ArchiveFails)
	}
	add("transaction ids", "%s of 2,147,483,648 spent", comma(h.IDsSpent))
	return facts
}

// waitName names a waiting process and the process it waits for.
func waitName(w db.LockWait) string {
	return fmt.Sprintf("%s waits for %v for %s", sessionName(w.ServerSession), w.Waited.Round(time.Second),
		strings.Join(each(w.HeldBy, sessionName), " and "))
}

// standbysName describes the standbys that a commit waits for, and whether they are connected.
func standbysName(h *db.ServerHealth) string {
	switch {
	case h.Awaited == "":
		return "no standby"
	case h.AwaitedThere || !h.SeesAll:
		return printable(h.Awaited)
	}
	return printable(h.Awaited) + ": none of them is there"
}
