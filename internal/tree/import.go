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
)

// Import brings the tree under dir in. It may be stopped, by ctx or by force, and run again at any
// point; run twice it adds nothing. The report says how far it came even when there is an error.
// ErrOtherFolder: nothing was done, because dir is not the folder that was imported before.
func Import(ctx context.Context, d *db.DB, l Layout, dir string, o Options) (Report, error) {
	t, err := openTree(d, l, dir, o)
	if err == nil {
		err = t.importAll(ctx)
	} else if !o.OtherFolder {
		err = cmp.Or(CheckFollowed(ctx, d, l, dir, o), err)
	}
	return t.Report.Report, interrupted(ctx, "import", err)
}

// interrupted says that it was the context that ended a call: whatever waited then has an error of its own.
func interrupted(ctx context.Context, op string, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if op == "import" {
		return &db.Error{
			Op: op, Hint: "what was acknowledged is kept; run the import again to go on",
			Err: context.Cause(ctx),
		}
	}
	return &db.Error{Op: op, Err: context.Cause(ctx)}
}

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
	if err = t.begin(ctx); err == nil {
		err = t.bringIn(ctx)
	}
	returned = true
	return err
}

var errNotReturned = errors.New("a function that the caller gave panicked, or left by runtime.Goexit")

// bringIn takes the files and all that belongs to the tree as a whole.
func (t *Tree) bringIn(ctx context.Context) error {
	err := t.measure()
	if err == nil {
		err = t.takeAll(ctx)
	}
	if err != nil {
		return err
	}
	if err := t.takeGone(ctx); err != nil {
		return err
	}
	if l, ok := t.layout.(Finisher); ok {
		if err := l.Finish(ctx, t); err != nil {
			return err
		}
	}
	err = t.Hold(ctx, "end import", func(tx *db.Tx) error {
		return errors.Join(t.Source.end(tx), t.endEntry(ctx, tx, nil), t.lease.ReleaseTx(tx))
	})
	if err == nil {
		// All is here; a server that can't do this now does it by itself later.
		_ = t.DB.WriteLocked(ctx, "analyze what was imported", (*db.Tx).Analyze)
	}
	return err
}

// giveUp writes why an import has ended early, and releases its source. Where that fails too, the
// source is held as long as this process lives, and the journal calls the import killed.
func (t *Tree) giveUp(ctx context.Context, failure error) {
	_ = t.DB.Write(context.WithoutCancel(ctx), "end import", func(tx *db.Tx) error {
		return errors.Join(t.endEntry(ctx, tx, failure), t.lease.ReleaseTx(tx))
	})
}

// Hold writes while the folder is this import's. One that was taken for dead, as a process is that
// a server has not heard of for long, has read what may have changed since, and another import may
// have been here.
func (t *Tree) Hold(ctx context.Context, why string, fn func(*db.Tx) error) error {
	err := t.lease.Hold(ctx, why, fn)
	if errors.Is(err, db.ErrLeaseLost) {
		err = &db.Error{
			Op: "import", Entity: "folder", ID: Shown(t.Root),
			Hint: "what was acknowledged is kept; run the import again to go on",
			Err: fmt.Errorf("%w: this process was silent for too long, or somebody took the folder away from it",
				db.ErrLeaseLost),
		}
	}
	return err
}

// leaseKind is what the reservation of a source is called; its name is the source's number.
const leaseKind = "import"

// begin finds or makes the source, and takes its lease: of two imports of one folder the second is
// told so at once. What it has found of the folder is what the import goes by from then on.
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
		if t.Unread, t.Aside, err = t.Source.inQuarantine(&tx.Rx); err != nil {
			return err
		}
		if t.Contests, err = t.Source.contested(&tx.Rx); err != nil {
			return err
		}
		t.Source.aside = nil
		if !t.Aside {
			t.Source.aside = newAside(t.Scope, t.Root)
		}
		return t.beginEntry(tx)
	})
}

// reserve takes the lease of the source.
func (t *Tree) reserve(tx *db.Tx) error {
	lease, err := t.DB.ReserveTx(tx, leaseKind, strconv.FormatInt(t.Source.ID, 10),
		db.ReserveOptions{Scope: t.Scope, Note: Shown(t.Root)})
	if held, ok := errors.AsType[*db.ReservedError](err); ok {
		err = t.busy(held.Holder)
	}
	if err == nil {
		t.lease = lease
	}
	return err
}

// busy says who imports the folder.
func (t *Tree) busy(holder db.Reservation) error {
	return &db.Error{
		Op: "import", Entity: "folder", ID: Shown(t.Root), HeldBy: []int{holder.PID},
		Hint: "wait until that import has ended",
		Err: fmt.Errorf("%w: process %d (%s) imports it since %s", db.ErrBusy, holder.PID, holder.Program,
			holder.ReservedAt.Format(time.RFC3339)),
	}
}

// A Follower is a Layout whose things go here when they are gone in the folder.
type Follower interface {
	// Gone is the piece of a file that was imported and is not in the folder any more; nil if nothing
	// is to be done.
	Gone(t *Tree, path string) Piece
}

// takeGone goes through the files that were imported once and are gone.
func (t *Tree) takeGone(ctx context.Context) error {
	follower, follows := t.layout.(Follower)
	for after := []byte{}; ; {
		var paths [][]byte
		err := t.DB.Read(ctx, "look for files that are gone", func(rx *db.Rx) error {
			paths = nil
			return rx.Select(&paths, sqlPaths+pathsAfter(rx), t.Source.ID, after, maxPieces)
		})
		if err != nil || len(paths) == 0 {
			return err
		}
		gone := GoneFrom(t.Root, paths)
		t.Report.Files.Gone += int64(len(gone))
		var batch []Piece
		for _, path := range gone {
			if !follows {
				break
			}
			if p := follower.Gone(t, string(path)); p != nil {
				batch = append(batch, p)
			}
		}
		if err := t.stillThere(); err != nil {
			return err
		}
		if len(batch) > 0 {
			if err := t.commit(ctx, batch); err != nil {
				return err
			}
		}
		after = paths[len(paths)-1]
	}
}

// stillThere says in an error that the folder itself is gone, or another one came into its place, a
// file system that was unmounted for one: then nothing can be said of its files.
func (t *Tree) stillThere() error {
	now, err := os.Stat(t.Root)
	if err == nil && !os.SameFile(t.folder, now) {
		err = fmt.Errorf("%s is not the folder any more that it was when the import began", Shown(t.Root))
	}
	return err
}

// takeAll brings the files in. A goroutine reads and decodes one batch of pieces; the caller's
// writes the one before it.
func (t *Tree) takeAll(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r := &reader{tree: t, batches: make(chan []Piece), done: make(chan error, 1)}
	go func() {
		err := errNotReturned
		defer func() { // a clock, or an observer
			if v := recover(); v != nil {
				err = db.Panicked(v)
			}
			r.done <- err
		}()
		err = r.run(reading)
	}()
	var writing error
	for batch := range r.batches {
		if writing = t.commit(ctx, batch); writing != nil {
			break
		}
	}
	stop()
	for range r.batches {
		continue // until the reader has seen that nobody listens
	}
	return errors.Join(writing, unlessStopped(<-r.done, writing))
}

// unlessStopped drops the reader's error where it only says that the writer stopped it.
func unlessStopped(reading, writing error) error {
	if writing != nil && errors.Is(reading, context.Canceled) {
		return nil
	}
	return reading
}

// A reader is the reading half of an import: it gathers pieces until they are worth a transaction.
type reader struct {
	tree    *Tree
	batches chan []Piece
	done    chan error
	batch   []Piece
	held    int
}

// maxPieces bounds the pieces of a transaction: files that are as they were have no bytes to count.
const maxPieces = 512

func (r *reader) run(ctx context.Context) error {
	defer close(r.batches)
	var met []ignored // files too: those have no reason
	next := func(path, reason string) error {
		if met = append(met, ignored{path, reason}); len(met) < maxAhead {
			return nil
		}
		defer func() { met = met[:0] }()
		return r.read(ctx, met)
	}
	err := r.tree.layout.Walk(r.tree.Folder, func(path string) error { return next(path, "") }, next)
	if err == nil {
		err = r.read(ctx, met)
	}
	if err != nil {
		return err
	}
	return r.flush(ctx)
}

// maxAhead bounds the files that the reader looks up together.
const maxAhead = 256

// A Lookahead is a Layout that looks files up before it reads them.
type Lookahead interface {
	// LookUp looks files up whose paths are given, and leaves in t.Ahead what it finds.
	LookUp(ctx context.Context, t *Tree, paths []string) error
}

// Ahead is what was looked up of a file before it is read.
type Ahead struct {
	Row  *Row // the ledger's; nil where there is none
	Free bool // there is nothing under the ids that its path says
}

// read reads files in the order in which a walk met them.
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

// commit takes a batch in one transaction; what it counts is added when it is committed, so that
// the report of a stopped import says what is in the file. Most of a second import changes nothing,
// which a read finds out.
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

// An ignored file is only named.
type ignored struct{ path, reason string }

func (p *ignored) Path() string           { return p.path }
func (*ignored) Held() int                { return 0 }
func (*ignored) Progress() (int64, int64) { return 0, 0 }

// Prefetch has nothing to ask.
func (*ignored) Prefetch(*Prefetcher) error { return nil }

func (p *ignored) Known(_ *db.Rx, part *Part) (bool, error) {
	return true, part.Ignore(p.path, p.reason)
}

func (p *ignored) Take(_ *db.Tx, part *Part) error { return part.Ignore(p.path, p.reason) }
