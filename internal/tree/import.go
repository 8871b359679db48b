package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
)

// Import imports the tree under dir. It may be stopped at any point, by ctx or by force, and run
// again; a second import adds nothing. The report shows how far it came, even with an error.
// ErrOtherFolder: nothing was done, because dir is not the folder that was imported before.
func Import(ctx context.Context, d *db.DB, l Layout, dir string, o Options) (Report, error) {
	t, err := openTree(d, l, dir, o)
	if err == nil {
		err = t.doubt(ctx)
	}
	if err == nil {
		err = t.importAll(ctx)
	} else if !o.OtherFolder {
		err = cmp.Or(CheckFollowed(ctx, d, l, dir, o), err)
	}
	return t.Report.Report, interrupted(ctx, "import", err)
}

// doubt refuses a folder of another program. It accepts one that was imported before, which may
// have lost all its files.
func (t *Tree) doubt(ctx context.Context) error {
	l, ok := t.layout.(Doubter)
	if !ok {
		return nil
	}
	known, err := stores.Get(ctx, t.DB.Read, "look for the folder", func(rx *db.Rx) (bool, error) {
		_, known, err := findSource(rx, t.Scope, t.layout.Name(), t.Root)
		return known, err
	})
	if err != nil || known {
		return err
	}
	return l.Foreign(t.Folder)
}

// interrupted replaces the error of a call whose context has ended by the context's cause.
func interrupted(ctx context.Context, op string, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	hint := ""
	if op == "import" {
		hint = hintResume
	}
	return &db.Error{Op: op, Hint: hint, Err: context.Cause(ctx)}
}

// inTurn runs the steps in order until one fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

const hintResume = "what was acknowledged is kept; run the import again to go on"

func (t *Tree) importAll(ctx context.Context) (err error) {
	returned := false
	defer func() { // Options.Progress may panic, or leave by runtime.Goexit
		if !returned {
			err = errNotReturned
		}
		if err != nil && t.lease != nil {
			t.giveUp(ctx, err)
		}
	}()
	err = inTurn(
		func() error { return t.begin(ctx) }, t.measure, func() error { return t.takeAll(ctx) },
		func() error { return t.takeGone(ctx) }, func() error { return t.finish(ctx) },
	)
	returned = true
	return err
}

var errNotReturned = errors.New("a function that the caller gave panicked, or left by runtime.Goexit")

// finish imports what belongs to the tree as a whole, and ends the import.
func (t *Tree) finish(ctx context.Context) error {
	if l, ok := t.layout.(Finisher); ok {
		if err := l.Finish(ctx, t); err != nil {
			return err
		}
	}
	err := t.Hold(ctx, "end import", func(tx *db.Tx) error {
		return errors.Join(t.Source.end(tx), t.endEntry(ctx, tx, nil), t.lease.ReleaseTx(tx))
	})
	if err == nil {
		// The import is complete even if this fails: a server analyzes tables later by itself.
		_ = t.DB.WriteLocked(ctx, "analyze what was imported", func(tx *db.Tx) error {
			return tx.Store().Analyze()
		})
	}
	return err
}

// giveUp records why an import ended early, and releases its source. If that fails too, the source
// stays held until this process ends; the journal then calls the import killed.
func (t *Tree) giveUp(ctx context.Context, failure error) {
	_ = t.DB.Write(context.WithoutCancel(ctx), "end import", func(tx *db.Tx) error {
		return errors.Join(t.endEntry(ctx, tx, failure), t.lease.ReleaseTx(tx))
	})
}

// Hold runs fn in a write transaction while this import holds its lease on the folder. An import
// whose process counted as dead, because the server had not heard from it for too long, must stop:
// another import may have run since, and the files that this one has read may have changed.
func (t *Tree) Hold(ctx context.Context, why string, fn func(*db.Tx) error) error {
	err := t.lease.Hold(ctx, why, fn)
	if errors.Is(err, db.ErrLeaseLost) {
		err = &db.Error{
			Op: "import", Entity: "folder", ID: Shown(t.Root),
			Hint: hintResume,
			Err: fmt.Errorf("%w: this process was silent for too long, or somebody took the folder away from it",
				db.ErrLeaseLost),
		}
	}
	return err
}

// leaseKind is the kind of a source's lease. Its name is the source's number.
const leaseKind = "import"

// begin finds or adds the source, and takes its lease: the second of two imports of one folder fails
// at once.
func (t *Tree) begin(ctx context.Context) error {
	var looked error
	t.folder, looked = look(t.Root)
	return t.DB.Write(ctx, "begin import", func(tx *db.Tx) (err error) {
		if t.Source, err = addSource(tx, t.Scope, t.layout.Name(), t.Root); err != nil {
			return err
		}
		if !t.Options.OtherFolder {
			err = checkFolder(&tx.Rx, t.Source.ID, t.Root, t.folder, looked)
		}
		if err = cmp.Or(err, looked); err != nil {
			return err
		}
		if err = t.reserve(tx); err != nil {
			return err
		}
		if err = tx.Get(&t.earlier, sqlEarlier, t.Source.ID); err != nil {
			return err
		}
		t.Source.aside = nil
		if !t.Aside {
			t.Source.aside = &aside{spots: map[spot]struct{}{}}
		}
		return t.beginEntry(tx)
	})
}

const sqlEarlier = `SELECT EXISTS (SELECT 1 FROM quarantine WHERE source = ?1 AND what = 'file') AS unread,
	EXISTS (SELECT 1 FROM quarantine WHERE source = ?1) AS aside,
	EXISTS (SELECT 1 FROM import_conflicts WHERE source = ?1 AND decided_at IS NULL) AS contests`

// reserve takes the lease of the source.
func (t *Tree) reserve(tx *db.Tx) error {
	lease, err := t.DB.ReserveTx(tx, leaseKind, strconv.FormatInt(t.Source.ID, 10),
		db.ReserveOptions{Scope: t.Scope, Note: Shown(t.Root)})
	if held, ok := errors.AsType[*db.ReservedError](err); ok {
		holder := held.Holder
		err = &db.Error{
			Op: "import", Entity: "folder", ID: Shown(t.Root), HeldBy: []int{holder.PID},
			Hint: "wait until that import has ended",
			Err: fmt.Errorf("%w: process %d (%s) imports it since %s", db.ErrBusy, holder.PID, holder.Program,
				holder.ReservedAt.Format(time.RFC3339)),
		}
	}
	if err == nil {
		t.lease = lease
	}
	return err
}

// A Follower is a Layout whose things are removed here when they are gone from the folder.
type Follower interface {
	// Gone is the piece of a file that was imported and is gone; nil if there is nothing to do.
	Gone(t *Tree, path string) Piece
}

// takeGone handles the files that were imported earlier and are gone.
func (t *Tree) takeGone(ctx context.Context) error {
	follower, follows := t.layout.(Follower)
	var batch []Piece
	commit := func() error {
		if err := t.stillThere(); err != nil || len(batch) == 0 {
			return err
		}
		defer func() { batch = nil }()
		return t.commit(ctx, batch)
	}
	for row, err := range t.Source.files(ctx, t.DB, sqlPaths) {
		if err != nil {
			return err
		}
		if !isGone(t.Root, row.Path) {
			continue
		}
		t.Report.Files.Gone++
		if !follows {
			continue
		}
		if p := follower.Gone(t, string(row.Path)); p != nil {
			batch = append(batch, p)
		}
		if len(batch) == maxPieces {
			if err := commit(); err != nil {
				return err
			}
		}
	}
	return commit()
}

// stillThere returns an error if the folder itself is gone or replaced, as when its file system was
// unmounted: then nothing is known about its files.
func (t *Tree) stillThere() error {
	now, err := os.Stat(t.Root)
	if err == nil && !os.SameFile(t.folder, now) {
		err = fmt.Errorf("%s is not the folder any more that it was when the import began", Shown(t.Root))
	}
	return err
}

// takeAll imports the files. One goroutine reads and decodes a batch of pieces, while the caller's
// writes the batch before it.
func (t *Tree) takeAll(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r := &reader{tree: t, batches: make(chan []Piece)}
	var read, written error
	go func() {
		defer close(r.batches)
		defer func() { // a clock, or an observer
			if v := recover(); v != nil {
				read = stores.Panicked(v)
			}
		}()
		read = errNotReturned
		read = r.run(reading)
	}()
	for batch := range r.batches {
		if written != nil {
			continue // until the reader stops
		}
		if written = t.commit(ctx, batch); written != nil {
			stop()
		}
	}
	if written != nil && errors.Is(read, context.Canceled) {
		read = nil
	}
	return errors.Join(written, read)
}

// A reader is the reading half of an import. It collects pieces until they are worth a transaction.
type reader struct {
	tree    *Tree
	batches chan []Piece
	batch   []Piece
	held    int
}

// maxPieces bounds the pieces of a transaction: unchanged files have no bytes to count.
const maxPieces = 512

func (r *reader) run(ctx context.Context) error {
	var met []ignored // files to read too; those have no reason
	next := func(path, reason string) error {
		if met = append(met, ignored{path, reason}); len(met) < maxAhead {
			return nil
		}
		defer func() { met = met[:0] }()
		return r.read(ctx, met)
	}
	err := r.tree.layout.Walk(r.tree.Folder, func(path string) error { return next(path, "") }, next)
	if err == nil {
		err = inTurn(func() error { return r.read(ctx, met) }, func() error { return r.flush(ctx) })
	}
	return err
}

// maxAhead is how many files the reader looks up at once.
const maxAhead = 256

// A Lookahead is a Layout that looks files up before it reads them.
type Lookahead interface {
	// LookUp looks up the files at the paths, and writes what it finds to t.Ahead.
	LookUp(ctx context.Context, t *Tree, paths []string) error
}

// Ahead is what was looked up about a file before it is read.
type Ahead struct {
	Row  *Row // the ledger's; nil if there is none
	Free bool // the store has nothing with the ids in its path
}

// read reads files in the order of the walk.
func (r *reader) read(ctx context.Context, met []ignored) error {
	if l, ok := r.tree.layout.(Lookahead); ok {
		var paths []string
		for _, m := range met {
			if m.reason == "" {
				paths = append(paths, m.path)
			}
		}
		if err := l.LookUp(ctx, r.tree, paths); err != nil {
			return err
		}
	}
	for _, m := range met {
		var err error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case m.reason != "":
			err = r.send(ctx, &m)
		default:
			err = r.tree.layout.Read(ctx, r.tree, m.path, func(p Piece) error { return r.send(ctx, p) })
		}
		if err != nil {
			return fmt.Errorf("%s: %w", Shown(m.path), err)
		}
	}
	return nil
}

func (r *reader) send(ctx context.Context, p Piece) error {
	r.batch = append(r.batch, p)
	r.held += p.Held()
	if r.held < r.tree.Options.Batch() && len(r.batch) < maxPieces {
		return nil
	}
	return r.flush(ctx)
}

func (r *reader) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	select {
	case r.batches <- r.batch:
		r.batch, r.held = nil, 0
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commit imports a batch in one transaction. Its counts are added after the commit, so that the
// report of a stopped import matches the database. Most batches of a second import change nothing;
// a read transaction finds that out first.
func (t *Tree) commit(ctx context.Context, batch []Piece) error {
	var part *Part
	var known bool
	err := t.DB.Read(ctx, "look for changes of a tree", func(rx *db.Rx) (err error) {
		part = newPart("", "", "")
		known, err = t.look(rx, batch, part)
		return err
	})
	if err == nil && !known {
		err = t.Hold(ctx, "import "+t.layout.Name(), func(tx *db.Tx) error {
			part = newPart("", "", "")
			return t.take(tx, batch, part)
		})
	}
	if err != nil {
		return err
	}
	t.Report.add(part)
	for _, p := range batch {
		files, bytes := p.Progress()
		t.at.Files += files
		t.at.Bytes += bytes
	}
	t.Advance(0, 0)
	return nil
}

func wrap(p Piece, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", Shown(p.Path()), err)
}

// An ignored file is only named in the report.
type ignored struct{ path, reason string }

func (p *ignored) Path() string             { return p.path }
func (*ignored) Held() int                  { return 0 }
func (*ignored) Progress() (int64, int64)   { return 0, 0 }
func (*ignored) Prefetch(*Prefetcher) error { return nil }

func (p *ignored) Known(_ *db.Rx, part *Part) (bool, error) {
	return true, part.Ignore(p.path, p.reason)
}

func (p *ignored) Take(_ *db.Tx, part *Part) error { return part.Ignore(p.path, p.reason) }
