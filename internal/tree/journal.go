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
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// An Entry is one import in the journal.
type Entry struct {
	ID      int64      `json:"id" db:"id"`
	Scope   string     `json:"scope" db:"scope"`
	Kind    string     `json:"kind" db:"kind"`
	Source  string     `json:"source" db:"-"` // the folder
	Outcome Outcome    `json:"outcome" db:"outcome"`
	BeganAt time.Time  `json:"began_at" db:"-"`
	EndedAt *time.Time `json:"ended_at" db:"-"` // nil: running or killed
	PID     int        `json:"pid" db:"pid"`
	User    string     `json:"user" db:"user"`
	Program string     `json:"program" db:"program"` // name and version
	// Counts and Files are those of its report; empty while it runs, and if it was killed.
	Counts map[string]Count `json:"counts" db:"-"`
	Files  Files            `json:"files" db:"-"`
	Error  string           `json:"error" db:"error"` // what it failed with; "" if it did not
}

// Outcome is what became of an import.
type Outcome string

// The outcomes.
const (
	Complete Outcome = "complete" // all is here
	Partial  Outcome = "partial"  // something is in quarantine, or differs and was left as it is
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
	sqlEntries = `SELECT i.id, i.source AS source_id, sc.name AS scope, s.kind, s.root, i.began_at, i.ended_at,
	i.pid, i."user", i.program, coalesce(i.outcome, '') AS outcome, coalesce(i.counts, '{}') AS counts_json,
	coalesce(i.files, '{}') AS files_json, coalesce(i.error, '') AS error,
	i.id = (SELECT max(id) FROM imports WHERE source = i.source) AS last
FROM imports AS i JOIN import_sources AS s ON s.id = i.source JOIN scopes AS sc ON sc.id = s.scope `
	sqlEntriesBefore = sqlEntries + `WHERE s.scope = ? AND i.id < ? ORDER BY i.id DESC LIMIT ?`
	sqlEntry         = sqlEntries + `WHERE i.id = ?`
)

// An entry holds the columns of a journal row that are set when the import begins.
type entry struct {
	id, began     int64
	pid           int
	user, program string
}

// who returns the process, user and program to record for a change.
func (o Options) who() (pid int, user, program string) {
	return os.Getpid(), userName(), cmp.Or(o.Program, programName())
}

// beginEntry writes that an import has begun.
func (t *Tree) beginEntry(tx *db.Tx) error {
	e := entry{began: db.Nanos(tx.Now())}
	e.pid, e.user, e.program = t.Options.who()
	files, err := t.journalled()
	if err != nil {
		return err
	}
	sum := e.sum(t.Source.ID, nil, nil, nil, files, nil)
	err = tx.Get(&e.id, sqlBeginEntry, t.Source.ID, e.began, e.pid, e.user, e.program, files, sum)
	t.entry = e
	return err
}

// sum is the checksum of the row.
func (e *entry) sum(source int64, ended, outcome, counts, files, failure any) int64 {
	return txn.Checksum(source, e.began, ended, e.pid, e.user, e.program, outcome, counts, files, failure)
}

// endEntry writes how it ended.
func (t *Tree) endEntry(ctx context.Context, tx *db.Tx, failure error) error {
	outcome, said := Complete, (*string)(nil)
	switch {
	case failure != nil && ctx.Err() != nil:
		outcome = Stopped
	case failure != nil:
		outcome = Failed
		said = new(failure.Error())
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

// journalled returns the journal's text for the file counts so far and the folder. It has the
// folder from the beginning: the next import compares it even if this one is killed.
func (t *Tree) journalled() (string, error) {
	kept := journalled{Files: t.Report.Files}
	if t.folder != nil { // nil if a row of the quarantine is tried again
		kept.Folder = new(folderIDOf(t.folder))
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

// An entryRow is an entry as it is stored. Its outcome is "" as long as its end is missing.
type entryRow struct {
	Entry
	SourceID   int64  `db:"source_id"`
	Root       []byte `db:"root"`
	Began      int64  `db:"began_at"`
	Ended      *int64 `db:"ended_at"`
	CountsJSON string `db:"counts_json"`
	FilesJSON  string `db:"files_json"`
	Last       bool   `db:"last"` // of its source
}

// complete sets the fields of the entry that are stored in another form.
func (r *entryRow) complete() (entryRow, error) {
	r.Source, r.BeganAt = Shown(string(r.Root)), db.Time(r.Began)
	if r.Ended != nil {
		r.EndedAt = new(db.Time(*r.Ended))
	}
	err := errors.Join(json.Unmarshal([]byte(r.CountsJSON), &r.Counts),
		json.Unmarshal([]byte(r.FilesJSON), &r.Files))
	if err != nil {
		err = fmt.Errorf("%w: the journal's row %d: %w", db.ErrCorrupt, r.ID, err)
	}
	return *r, err
}

// judge sets the outcome of an import without a recorded end: running if it is the last of its
// source and holds the source's lease, and killed otherwise.
func (r *entryRow) judge(ctx context.Context, d *db.DB) error {
	if r.Outcome != "" {
		return nil
	}
	r.Outcome = Killed
	if !r.Last {
		return nil
	}
	held, ok, err := d.Reservation(ctx, r.Scope, leaseKind, strconv.FormatInt(r.SourceID, 10))
	if err != nil {
		return err
	}
	if ok && !held.State.Over() {
		r.Outcome = Running
		return nil
	}
	// It may have ended, and released its source, since its row was read.
	return d.Read(ctx, "look again at an import", func(rx *db.Rx) error {
		now, err := findEntry(rx, r.ID)
		if err == nil && now.Outcome != "" {
			r.Entry = now.Entry
		}
		return err
	})
}

// Journal lists the imports into a scope, newest first.
func Journal(ctx context.Context, d *db.DB, scope string, at db.At) (entries db.Page[Entry], err error) {
	rows, err := page(ctx, d, "imports", scope, at, math.MaxInt64, sqlEntriesBefore, (*entryRow).complete,
		func(r *entryRow) (int64, int) { return r.ID, 500 + len(r.Source) + len(r.Error) })
	entries.Next = rows.Next
	for i := range rows.Items {
		if err == nil {
			err = rows.Items[i].judge(ctx, d)
		}
		entries.Items = append(entries.Items, rows.Items[i].Entry)
	}
	return entries, err
}

// findEntry returns the entry of that number; db.ErrNotFound if there is none.
func findEntry(rx *db.Rx, id int64) (r entryRow, err error) {
	ok, err := rx.Find(&r, sqlEntry, id)
	if err == nil && !ok {
		err = &db.Error{
			Op: "show import", Entity: "import", ID: strconv.FormatInt(id, 10), Err: db.ErrNotFound,
			Hint: "see the numbers: migrate imports list",
		}
	}
	if err != nil {
		return r, err
	}
	return r.complete()
}

// JournalEntry is one import, into any scope; db.ErrNotFound if there is none of that number.
func JournalEntry(ctx context.Context, d *db.DB, id int64) (Entry, error) {
	r, err := stores.Get(ctx, d.Read, "show import", func(rx *db.Rx) (entryRow, error) {
		return findEntry(rx, id)
	})
	if err == nil {
		err = r.judge(ctx, d)
	}
	return r.Entry, err
}
