package legacy

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db"
)

// A layout is what the core has to know about a kind of tree whose files are lines, each file one thing in the store.
type layout interface {
	name() string
	// walk calls file for every file below root that should hold records, by its path below root, always in the same
	// order, and ignored for what the old program does not read.
	walk(root string, file func(path string) error, ignored func(path, reason string) error) error
	// decode tells what a line is: what the counts call it, why it can't be read ("" if it can), and whatever store.append
	// wants to know.
	decode(text []byte) (kind, reason string, value any)
	// identities are the things that the file may be, the best first, given its first records. No two files of a tree
	// have the same last one.
	identities(path string, first []record) []entity
	// path is where a thing that came from no file belongs, and why it can't be there ("" if it can).
	path(e entity) (path, problem string)
	// title names a thing to people.
	title(e entity) string
	// prepare makes what an export's folder holds beside the files; it returns the root that the paths are below.
	prepare(dir string) (root string, err error)
	// store is the door of the store.
	store(d *db.DB, scope string) store
}

// An importer brings one tree in. A goroutine reads, hashes and decodes; the caller's writes, a few MB in a transaction.
type importer struct {
	d      *db.DB
	layout layout
	store  store
	source source
	root   string
	o      Options
	unread bool // some file of this source is in quarantine because it could not be read
	report Report
	at     Progress
}

// A sourceFile is a file on its way through an import.
type sourceFile struct {
	path string
	size int64
	// kept is set by the writer when ours was touched since the last import: the file's records are counted and not taken.
	kept bool
	// changed is set by the writer when the file takes the place of what was imported from it before.
	changed bool
}

type stepKind int

const (
	stepPiece  stepKind = iota // records
	stepSame                   // the file is as it was
	stepShared                 // the file's content is there from elsewhere
	stepUnread
	stepIgnored
)

// A step is what the reader hands to the writer.
type step struct {
	kind  stepKind
	file  *sourceFile
	row   *ledgerRow // the ledger's, when the file was opened; nil: none
	opens bool       // the first step of the file
	tail  string     // the kind of record of the torn last line; "" for none

	*piece           // stepPiece
	choices []choice // stepPiece from 0, stepShared: who the file may be
	records tally    // stepShared
	reason  string   // stepUnread, stepIgnored
}

// maxSteps bounds the steps of a transaction: unchanged files have no bytes to count.
const maxSteps = 512

func runImport(ctx context.Context, d *db.DB, l layout, scope, root string, o Options) (Report, error) {
	report, err := importAll(ctx, d, l, scope, root, o)
	return report, interrupted(ctx, "import", err)
}

// interrupted says that it was the context that ended a call: whatever waited then has an error of its own.
func interrupted(ctx context.Context, op string, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	switch op {
	case "import":
		return stopped(ctx)
	case "export":
		return &db.Error{Op: op, Hint: "the folder holds a part; remove it before you try again", Err: context.Cause(ctx)}
	}
	return &db.Error{Op: op, Err: context.Cause(ctx)}
}

// stopped is the error of an import that its context ended.
func stopped(ctx context.Context) error {
	return &db.Error{Op: "import", Hint: "what was acknowledged is kept; run the import again to go on", Err: context.Cause(ctx)}
}

func importAll(ctx context.Context, d *db.DB, l layout, scope, root string, o Options) (Report, error) {
	x := &importer{d: d, layout: l, store: l.store(d, scope), root: root, o: o, report: newReport(l.name(), scope, root)}
	if err := x.begin(ctx, scope); err != nil {
		return x.report, err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r := &reader{importer: x, steps: make(chan *step, 8), done: make(chan error, 1)}
	go func() { r.done <- r.run(reading) }()
	writing := x.write(ctx, r.steps)
	stop()
	for range r.steps {
		continue // until the reader has seen that nobody listens
	}
	if err := errors.Join(writing, unlessStopped(<-r.done, writing)); err != nil {
		return x.report, err
	}
	x.report.Files.Gone = r.gone
	if x.unread {
		if err := x.releaseGone(ctx); err != nil {
			return x.report, err
		}
	}
	return x.report, d.Write(ctx, "end import", func(tx *db.Tx) error { return x.source.end(tx) })
}

// releaseGone takes out of the quarantine what could not be read and is gone.
func (x *importer) releaseGone(ctx context.Context) error {
	for after := []byte{}; ; {
		var paths [][]byte
		err := x.d.Read(ctx, "look for what could not be read", func(rx *db.Rx) error {
			paths = nil
			return rx.Select(&paths, sqlUnreadFiles, x.source.id, after, 1000)
		})
		if err != nil || len(paths) == 0 {
			return err
		}
		err = x.d.Write(ctx, "release what is gone", func(tx *db.Tx) error {
			for _, path := range goneFrom(x.root, paths) {
				if err := x.source.releaseUnread(tx, string(path)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		after = paths[len(paths)-1]
	}
}

// unlessStopped drops the reader's error where it only says that the writer stopped it.
func unlessStopped(reading, writing error) error {
	if writing != nil && errors.Is(reading, context.Canceled) {
		return nil
	}
	return reading
}

func (x *importer) begin(ctx context.Context, scope string) error {
	if err := x.o.totals(&x.at, x.root, x.layout.walk); err != nil {
		return err
	}
	return x.d.Write(ctx, "begin import", func(tx *db.Tx) (err error) {
		if x.source, err = addSource(tx, scope, x.layout.name(), x.root); err != nil {
			return err
		}
		const sqlUnread = `SELECT EXISTS (SELECT 1 FROM quarantine WHERE source = ? AND what = 'file')`
		return tx.Get(&x.unread, sqlUnread, x.source.id)
	})
}

// write takes steps until there are no more, a batch at a time. What a batch counts is added to the report when it is
// committed, so that the report of a stopped import says what is in the file.
func (x *importer) write(ctx context.Context, steps <-chan *step) error {
	var pending []*step
	bytes := 0
	for open := true; open; {
		var st *step
		if st, open = <-steps; open {
			pending = append(pending, st)
			if st.piece != nil {
				bytes += len(st.raw) + len(st.piece.tail)
			}
		}
		if open && bytes < x.o.batchBytes() && len(pending) < maxSteps || len(pending) == 0 {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := x.commit(ctx, pending); err != nil {
			return err
		}
		clear(pending)
		pending, bytes = pending[:0], 0
	}
	return nil
}

func (x *importer) commit(ctx context.Context, steps []*step) error {
	var done *batch
	apply := func(tx *db.Tx) error {
		done = &batch{importer: x, tx: tx, part: newReport("", "", "")}
		for _, st := range steps {
			if err := done.apply(st); err != nil {
				return fmt.Errorf("%s: %w", shown(st.file.path), err)
			}
		}
		return nil
	}
	var err error
	if x.unread || writes(steps) {
		err = x.d.Write(ctx, "import "+x.layout.name(), apply)
	} else {
		err = apply(nil)
	}
	if err != nil {
		return err
	}
	x.report.add(&done.part)
	if x.o.Progress != nil {
		for _, st := range steps {
			if st.opens && st.kind != stepIgnored {
				x.at.Files++
			}
			x.at.Bytes += st.progress()
		}
		x.o.Progress(x.at)
	}
	return nil
}

// writes reports whether a batch changes the database at all: most of a second import does not.
func writes(steps []*step) bool {
	for _, st := range steps {
		if st.kind != stepIgnored && (st.kind != stepSame || st.row.State == stateRefused) {
			return true
		}
	}
	return false
}

// progress is how many bytes of the source the step stands for.
func (st *step) progress() int64 {
	if st.kind == stepSame || st.kind == stepShared {
		return st.file.size
	}
	if st.kind == stepPiece {
		n := st.to - st.from + int64(len(st.piece.tail))
		if st.opens {
			n += st.from
		}
		return n
	}
	return 0
}
