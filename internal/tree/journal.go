package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"selvedge/db"
)

// An Entry is one import in the journal.
type Entry struct {
	ID      int64      `json:"id"`
	Scope   string     `json:"scope"`
	Kind    string     `json:"kind"`
	Source  string     `json:"source"` // the folder
	Outcome Outcome    `json:"outcome"`
	BeganAt time.Time  `json:"began_at"`
	EndedAt *time.Time `json:"ended_at"` // nil: running or killed
	PID     int        `json:"pid"`
	User    string     `json:"user"`
	Program string     `json:"program"` // name and version
	// Counts and Files are those of its report; empty while it runs, and where it was killed.
	Counts map[string]Count `json:"counts"`
	Files  Files            `json:"files"`
	Error  string           `json:"error"` // what it failed with; "" where it did not
}

// Outcome is what became of an import.
type Outcome string

// The outcomes.
const (
	Complete Outcome = "complete" // all is here
	Partial  Outcome = "partial"  // something was quarantined, or differs and was left as it is
	Stopped  Outcome = "stopped"  // by its caller
	Failed   Outcome = "failed"   // see the error
	Running  Outcome = "running"
	Killed   Outcome = "killed" // its process is gone
)

const (
	sqlBeginEntry = `INSERT INTO imports (source, began_at, pid, "user", program, files, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`
	sqlEndEntry = `UPDATE imports SET ended_at = ?, outcome = ?, counts = ?, files = ?, error = ?,
		checksum = ? WHERE id = ?`
	sqlEntries = `SELECT i.id, i.source, sc.name AS scope, s.kind, s.root, i.began_at, i.ended_at, i.pid,
	i."user", i.program,
    coalesce(i.outcome, '') AS outcome, coalesce(i.counts, '{}') AS counts, coalesce(i.files, '{}') AS files,
    coalesce(i.error, '') AS error
FROM imports AS i JOIN import_sources AS s ON s.id = i.source JOIN scopes AS sc ON sc.id = s.scope `
	sqlEntriesBefore = sqlEntries + `WHERE s.scope = ? AND i.id < ? ORDER BY i.id DESC LIMIT ?`
	sqlEntry         = sqlEntries + `WHERE i.id = ?`
	sqlLastOf        = `SELECT max(id) FROM imports WHERE source = ?`
)

// beginEntry writes that an import has begun.
func (t *Tree) beginEntry(tx *db.Tx) error {
	t.entry = entry{
		began: db.Nanos(tx.Now()), pid: os.Getpid(), user: userName(),
		program: cmp.Or(t.Options.Program, programName()),
	}
	files, err := t.journalled()
	if err != nil {
		return err
	}
	sum := t.entry.sum(t.Source.ID, nil, nil, nil, files, nil)
	return tx.Get(&t.entry.id, sqlBeginEntry, t.Source.ID, t.entry.began, t.entry.pid, t.entry.user,
		t.entry.program, files, sum)
}

// An entry is what the journal's row of this import had from the beginning.
type entry struct {
	id, began     int64
	pid           int
	user, program string
}

// sum is the checksum of the row.
func (e *entry) sum(source int64, ended, outcome, counts, files, failure any) int64 {
	return db.Checksum(source, e.began, ended, e.pid, e.user, e.program, outcome, counts, files, failure)
}

// endEntry writes how it ended.
func (t *Tree) endEntry(ctx context.Context, tx *db.Tx, failure error) error {
	outcome, said := Complete, (*string)(nil)
	switch {
	case failure != nil && ctx.Err() != nil:
		outcome = Stopped
	case failure != nil:
		outcome = Failed
		text := failure.Error()
		said = &text
	case t.Report.Partial():
		outcome = Partial
	}
	counts, err := json.Marshal(t.Report.Counts)
	if err != nil {
		return err
	}
	files, err := t.journalled()
	if err != nil {
		return err
	}
	ended := db.Nanos(tx.Now())
	sum := t.entry.sum(t.Source.ID, ended, string(outcome), string(counts), files, said)
	_, err = tx.Exec(sqlEndEntry, ended, string(outcome), string(counts), files, said, sum, t.entry.id)
	return err
}

// journalled is what the journal keeps of the files, and the folder, so far: who comes after an
// import that was killed needs that, too.
func (t *Tree) journalled() (string, error) {
	kept := journalled{Files: t.Report.Files}
	if t.folder != nil { // nil where what is in quarantine is tried again
		id := folderIDOf(t.folder)
		kept.Folder = &id
	}
	text, err := json.Marshal(kept)
	return string(text), err
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

func programName() string {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return filepath.Base(os.Args[0]) + " " + version
}

type entryRow struct {
	ID      int64  `db:"id"`
	Source  int64  `db:"source"`
	Scope   string `db:"scope"`
	Kind    string `db:"kind"`
	Root    []byte `db:"root"`
	BeganAt int64  `db:"began_at"`
	EndedAt *int64 `db:"ended_at"`
	PID     int    `db:"pid"`
	User    string `db:"user"`
	Program string `db:"program"`
	Outcome string `db:"outcome"`
	Counts  string `db:"counts"`
	Files   string `db:"files"`
	Error   string `db:"error"`
}

func (r *entryRow) public() (e Entry, err error) {
	e = Entry{
		ID: r.ID, Scope: r.Scope, Kind: r.Kind, Source: Shown(string(r.Root)), Outcome: Outcome(r.Outcome),
		BeganAt: db.Time(r.BeganAt),
		PID:     r.PID, User: r.User, Program: r.Program, Error: r.Error,
	}
	if r.EndedAt != nil {
		at := db.Time(*r.EndedAt)
		e.EndedAt = &at
	}
	if err := errors.Join(json.Unmarshal([]byte(r.Counts), &e.Counts),
		json.Unmarshal([]byte(r.Files), &e.Files)); err != nil {
		return e, fmt.Errorf("%w: the journal's row %d: %w", db.ErrCorrupt, r.ID, err)
	}
	return e, nil
}

// A found entry is one whose end may be missing.
type foundEntry struct {
	Entry
	source int64
	last   bool // of its source
}

// judge says of an import without an end whether it still runs: then it is the last of its source,
// and holds the source.
func (f *foundEntry) judge(ctx context.Context, d *db.DB) error {
	if f.Outcome != "" {
		return nil
	}
	f.Outcome = Killed
	if !f.last {
		return nil
	}
	held, ok, err := d.Reservation(ctx, f.Scope, leaseKind, strconv.FormatInt(f.source, 10))
	if err != nil {
		return err
	}
	if ok && !held.State.Over() {
		f.Outcome = Running
		return nil
	}
	// It may have ended, and released its source, since its row was read.
	return d.Read(ctx, "look again at an import", func(rx *db.Rx) error {
		now, err := findEntry(rx, f.ID)
		if err == nil && now.Outcome != "" {
			f.Entry = now.Entry
		}
		return err
	})
}

func found(rx *db.Rx, r *entryRow) (f foundEntry, err error) {
	var last int64
	if err := rx.Get(&last, sqlLastOf, r.Source); err != nil {
		return f, err
	}
	e, err := r.public()
	return foundEntry{Entry: e, source: r.Source, last: last == r.ID}, err
}

var journal = numbered[foundEntry]{
	name:  "imports",
	first: math.MaxInt64,
	read: func(rx *db.Rx, scope, before int64, limit int) (list []foundEntry, err error) {
		var rows []entryRow
		err = rx.Select(&rows, sqlEntriesBefore, scope, before, limit)
		for i := 0; i < len(rows) && err == nil; i++ {
			var f foundEntry
			f, err = found(rx, &rows[i])
			list = append(list, f)
		}
		return list, err
	},
	size:   func(f *foundEntry) int { return 500 + len(f.Source) + len(f.Error) },
	number: func(f *foundEntry) int64 { return f.ID },
}

// Journal lists the imports into a scope, newest first.
func Journal(ctx context.Context, d *db.DB, scope string, at db.At) (page db.Page[Entry], err error) {
	list, err := journal.page(ctx, d, scope, at)
	page.Next = list.Next
	for i := range list.Items {
		if err == nil {
			err = list.Items[i].judge(ctx, d)
		}
		page.Items = append(page.Items, list.Items[i].Entry)
	}
	return page, err
}

// findEntry gives the entry of that number; db.ErrNotFound if there is none.
func findEntry(rx *db.Rx, id int64) (f foundEntry, err error) {
	var r entryRow
	ok, err := rx.Find(&r, sqlEntry, id)
	if err == nil && !ok {
		err = &db.Error{
			Op: "show import", Entity: "import", ID: strconv.FormatInt(id, 10), Err: db.ErrNotFound,
			Hint: "see the numbers: migrate imports list",
		}
	}
	if err != nil {
		return f, err
	}
	return found(rx, &r)
}

// JournalEntry is one import, into whichever scope; db.ErrNotFound if there is none of that number.
func JournalEntry(ctx context.Context, d *db.DB, id int64) (Entry, error) {
	var f foundEntry
	err := d.Read(ctx, "show import", func(rx *db.Rx) (err error) {
		f, err = findEntry(rx, id)
		return err
	})
	if err == nil {
		err = f.judge(ctx, d)
	}
	return f.Entry, err
}
