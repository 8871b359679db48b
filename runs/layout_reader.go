package runs

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Read looks up what the ledger knows of a file, and decodes what is new. An error of the file ends
// only the reading of that file.
func (layout) Read(ctx context.Context, t *tree.Tree, path string, send func(tree.Piece) error) error {
	file := &sourceFile{path: path}
	in := &fileReader{Tree: t, file: file, pass: send}
	f, size, err := t.Folder.Open(path)
	if err != nil {
		return in.send(&step{kind: stepUnread, reason: t.Folder.Why(path, err)})
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	file.size = size
	in.lines = readerOf(f, size, min(pieceBytes, t.Options.Batch()))
	err = in.run(ctx)
	if read, ok := errors.AsType[*readError](err); ok {
		return in.send(&step{kind: stepUnread, reason: t.Folder.Why(path, read.err)})
	}
	return err
}

// readError is an error of the source, not of the store.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func trouble(err error) error {
	if err == nil {
		return nil
	}
	return &readError{err}
}

// fileReader reads one open file.
type fileReader struct {
	*tree.Tree
	file  *sourceFile
	lines *lineReader
	row   *tree.Row
	sent  bool
	free  bool // the lookup ahead found nothing under the ids of its path
	pass  func(tree.Piece) error
}

func (in *fileReader) run(ctx context.Context) error {
	err := in.lookUp(ctx)
	if err == nil && in.row == nil && !in.Alone {
		err = in.followMove(ctx)
	}
	if err != nil {
		return err
	}
	if in.row == nil {
		return in.fromStart(ctx)
	}
	known, closed, err := in.skipKnown()
	switch {
	case err != nil:
		return trouble(err)
	case !known:
		return in.fromStart(ctx)
	}
	same, err := in.lines.rest(in.row.Tail)
	if err != nil {
		return trouble(err)
	}
	same = same && !closed
	again, err := in.again(ctx, same)
	switch {
	case err != nil:
		return err
	case again:
		return in.fromStart(ctx)
	case same:
		return in.send(&step{kind: stepSame, tail: tailKind(in.row.Tail)})
	}
	return in.pieces(nil)
}

// lookUp reads the ledger's row of the file, unless LookUp has read it ahead.
func (in *fileReader) lookUp(ctx context.Context) error {
	ahead, ok := in.Ahead[in.file.path]
	if !ok {
		return in.DB.Read(ctx, "look a file up", func(rx *db.Rx) (err error) {
			in.row, err = in.Source.File(rx, in.file.path)
			return err
		})
	}
	delete(in.Ahead, in.file.path)
	in.row, in.free = ahead.Row, ahead.Free
	return nil
}

// LookUp reads the ledger's rows of files. For files without one, it looks up whether anything is
// stored under the ids of their paths, since most new files become those runs.
func (layout) LookUp(ctx context.Context, t *tree.Tree, paths []string) error {
	return t.DB.Read(ctx, "look files up", func(rx *db.Rx) error {
		t.Ahead = map[string]tree.Ahead{}
		for _, path := range paths {
			if err := t.Source.PrefetchFile(rx, path); err != nil {
				return err
			}
		}
		var failed error
		ask := func(query string, args ...any) { failed = errors.Join(failed, rx.Store().Prefetch(query, args...)) }
		var unknown []string
		for _, path := range paths {
			row, err := t.Source.File(rx, path)
			if t.Ahead[path] = (tree.Ahead{Row: row}); err == nil && row == nil {
				unknown = append(unknown, path)
				prefetch(ask, t.Source.Scope, saidBy(path), 0)
			}
			if err := errors.Join(err, failed); err != nil {
				return err
			}
		}
		for _, path := range unknown {
			_, there, err := stateOf(rx, t.Source.Scope, saidBy(path))
			if err != nil {
				return err
			}
			t.Ahead[path] = tree.Ahead{Free: !there}
		}
		return nil
	})
}

// followMove finds the ledger's row of a file that had another path when it was imported: a file
// that is gone holds its id. Later versions and people rename folders. The ledger is changed at
// once, not in a batch.
func (in *fileReader) followMove(ctx context.Context) error {
	ids, err := in.identities()
	if err != nil || in.isFree(ids[0]) {
		return trouble(err)
	}
	var by []byte
	err = in.DB.Read(ctx, "look for the file that an id came from", func(rx *db.Rx) (err error) {
		_, _, by, err = standing(rx, in.Tree, ids[0])
		return err
	})
	was := string(by)
	if err != nil || was == "" || !in.Folder.Lacks(was) {
		return err
	}
	return in.Hold(ctx, "follow a file that was moved", func(tx *db.Tx) (err error) {
		if err = in.Source.Move(tx, was, in.file.path); err == nil {
			in.row, err = in.Source.File(&tx.Rx, in.file.path)
		}
		return err
	})
}

// isFree reports whether nothing was stored under these ids when the file was looked up.
func (in *fileReader) isFree(e tree.Entity) bool { return in.free && e == saidBy(in.file.path) }

// skipKnown reads what was consumed before. known is false if the file no longer begins with it;
// closed is true if the last consumed line now has the line feed that it lacked.
func (in *fileReader) skipKnown() (known, closed bool, err error) {
	if in.row.Consumed > in.file.size {
		return false, false, nil
	}
	sum, err := in.lines.skip(in.row.Consumed)
	if err != nil || !bytes.Equal(sum, in.row.PrefixSHA256) {
		return false, false, err
	}
	if in.row.OpenLine && in.row.Consumed < in.file.size {
		closed, err = in.lines.closeLine()
		return closed, closed, err
	}
	return true, false, nil
}

// again reports whether to read a file from its beginning although it begins as it did before. It
// does so if the file has changed and had no whole line or has no records of its own here, or if
// the run that it conflicted with is gone. A refused file in which an import was stopped continues.
func (in *fileReader) again(ctx context.Context, same bool) (here bool, err error) {
	switch {
	case !same && in.row.Consumed == 0: // without a whole line its identity was a guess
		return true, nil
	case in.row.State == tree.StateTaken:
		return false, nil
	case !same:
		return in.row.State == tree.StateShared || in.row.Complete(), nil
	case in.row.State == tree.StateShared:
		return false, nil
	}
	err = in.DB.Read(ctx, "look for the cause of a conflict", func(rx *db.Rx) (err error) {
		_, here, err = stateOf(rx, in.Source.Scope, in.row.Entity())
		return err
	})
	return !here, err
}

// tailKind returns the kind of record of a torn last line; "" for none.
func tailKind(tail []byte) string {
	if len(tail) == 0 {
		return ""
	}
	line := readLine(tail)
	return line.name()
}

func (in *fileReader) send(st *step) error {
	st.Tree, st.file, st.row, st.opens = in.Tree, in.file, in.row, !in.sent
	in.sent = true
	return in.pass(st)
}

// fromStart determines which run the file may be, and reads it from its beginning.
func (in *fileReader) fromStart(ctx context.Context) error {
	ids, err := in.identities()
	if err != nil {
		return trouble(err)
	}
	choices, err := in.choose(ctx, ids)
	if err != nil {
		return err
	}
	in.lines.rewind()
	if slices.ContainsFunc(choices, func(c choice) bool { return c.verdict == verdictSame }) {
		return in.shared(choices)
	}
	return in.pieces(choices)
}

// identities returns the ids that the file may have, by its first records: as many as pieceBytes
// hold, whatever the size of a batch, so that an import that was stopped in the file decides the
// same.
func (in *fileReader) identities() ([]tree.Entity, error) {
	lines := in.lines
	if lines.step != pieceBytes {
		lines = readerOf(in.lines.f, in.file.size, pieceBytes)
	}
	first, err := lines.first()
	if err != nil {
		return nil, err
	}
	return identities(in.file.path, first.records), nil
}

// pieces sends the rest of the file.
func (in *fileReader) pieces(choices []choice) error {
	for last := false; !last; choices = nil {
		p, err := in.lines.next()
		if err != nil {
			return trouble(err)
		}
		last = p.last
		err = in.send(&step{kind: stepPiece, piece: p, choices: choices, tail: tailKind(p.tail)})
		if err != nil {
			return err
		}
	}
	return nil
}
