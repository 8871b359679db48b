package runs

import (
	"bytes"
	"context"
	"errors"
	"os"

	"selvedge/db"
	"selvedge/internal/tree"
)

// A room is the tree and the store that a call works with.
type room struct {
	*tree.Tree
	store store
}

func roomOf(t *tree.Tree) *room {
	return &room{t, store{t.Scope, t.DB}}
}

// Read finds out what the ledger knows of a file, and decodes what is new. Trouble with the file
// ends its reading and nothing else.
func (layout) Read(ctx context.Context, t *tree.Tree, path string, send func(tree.Piece) error) error {
	r := roomOf(t)
	file := &sourceFile{path: path}
	f, size, err := t.Folder.Open(path)
	if err != nil {
		return send(&step{room: r, kind: stepUnread, file: file, reason: t.Folder.Why(path, err), opens: true})
	}
	defer f.Close() //nolint:errcheck // only read
	file.size = size
	in := &fileReader{room: r, file: file, lines: r.linesOf(f, size), pass: send}
	err = in.run(ctx)
	if read, ok := errors.AsType[*readError](err); ok {
		return send(&step{
			room: r, kind: stepUnread, file: file, reason: t.Folder.Why(path, read.err),
			opens: !in.sent,
		})
	}
	return err
}

// linesOf cuts the file into pieces that fit the batches.
func (r *room) linesOf(f *os.File, size int64) *lineReader {
	return &lineReader{f: f, size: size, step: min(pieceBytes, r.Options.Batch()), decode: kindOfLine}
}

// readError is an error of the source, not of ours.
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
	*room
	file  *sourceFile
	lines *lineReader
	row   *tree.Row
	sent  bool
	free  *tree.Entity // is not there, as was found ahead; nil: nothing was
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
	again := false
	if in.row.State != tree.StateTaken {
		again, err = in.again(ctx, same)
		if err != nil {
			return err
		}
	}
	switch {
	case again, !same && in.row.Consumed == 0: // without a whole line its identity was a guess
		return in.fromStart(ctx)
	case same:
		return in.send(&step{kind: stepSame, row: in.row, tail: in.tailKind(in.row.Tail)})
	}
	return in.pieces(nil)
}

// lookUp finds what the ledger knows of the file, unless that was looked up with others.
func (in *fileReader) lookUp(ctx context.Context) error {
	ahead, ok := in.Ahead[in.file.path]
	if !ok {
		return in.DB.Read(ctx, "look a file up", func(rx *db.Rx) (err error) {
			in.row, err = in.Source.File(rx, in.file.path)
			return err
		})
	}
	delete(in.Ahead, in.file.path)
	if in.row = ahead.Row; ahead.Free {
		free := saidBy(in.file.path)
		in.free = &free
	}
	return nil
}

// LookUp looks up what the ledger knows of files and, of those that it does not know, whether there
// is anything under the ids that their paths say: most new files become that.
func (layout) LookUp(ctx context.Context, t *tree.Tree, paths []string) error {
	r := roomOf(t)
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
			if err != nil {
				return err
			}
			if t.Ahead[path] = (tree.Ahead{Row: row}); row == nil {
				unknown = append(unknown, path)
				if err := r.store.prefetch(rx, saidBy(path), 0, ask); err != nil || failed != nil {
					return errors.Join(err, failed)
				}
			}
		}
		for _, path := range unknown {
			_, there, err := r.store.state(rx, saidBy(path))
			if err != nil {
				return err
			}
			t.Ahead[path] = tree.Ahead{Free: !there}
		}
		return nil
	})
}

// followMove finds the row of a file that had another path when it was imported: its id is held by
// a file that is gone. Later versions and people rename folders. The ledger is told at once; that
// takes no part of the batches.
func (in *fileReader) followMove(ctx context.Context) error {
	ids, err := in.identities()
	if err != nil {
		return trouble(err)
	}
	was, err := in.vanished(ctx, ids)
	if err != nil || was == "" {
		return err
	}
	return in.Hold(ctx, "follow a file that was moved", func(tx *db.Tx) (err error) {
		if err = in.Source.Move(tx, was, in.file.path); err == nil {
			in.row, err = in.Source.File(&tx.Rx, in.file.path)
		}
		return err
	})
}

// vanished is the path of the file that the first of the ids came from, if there is no such file any more.
func (in *fileReader) vanished(ctx context.Context, ids []tree.Entity) (was string, err error) {
	if in.isFree(ids[0]) {
		return "", nil
	}
	err = in.DB.Read(ctx, "look for the file that an id came from", func(rx *db.Rx) error {
		_, _, by, err := in.standing(rx, ids[0])
		was = string(by)
		return err
	})
	if was == "" || err != nil {
		return "", err
	}
	if in.Folder.Lacks(was) {
		return was, nil
	}
	return "", nil
}

// isFree reports whether nothing was there under these ids when the file was looked up.
func (in *fileReader) isFree(e tree.Entity) bool { return in.free != nil && *in.free == e }

// skipKnown reads what was consumed before. known is false if that is not what the file begins with
// any more; closed is true if the last consumed line has got the line feed it was without.
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

// again reports whether a file whose records are not here as its own is to be looked at as if it
// were new: it has changed, or what it met has gone. A refused file that an import was stopped in
// is gone on with.
func (in *fileReader) again(ctx context.Context, same bool) (bool, error) {
	if !same {
		return in.row.State == tree.StateShared || in.row.Complete(), nil
	}
	if in.row.State == tree.StateShared {
		return false, nil
	}
	here := false
	err := in.DB.Read(ctx, "look for the cause of a conflict", func(rx *db.Rx) (err error) {
		_, here, err = in.store.state(rx, in.row.Entity())
		return err
	})
	return !here, err
}

func (in *fileReader) tailKind(tail []byte) string {
	if len(tail) == 0 {
		return ""
	}
	kind, _, _ := kindOfLine(tail)
	return kind
}

func (in *fileReader) send(st *step) error {
	st.room, st.file, st.opens = in.room, in.file, !in.sent
	in.sent = true
	return in.pass(st)
}

// fromStart decides what the file may be, and reads it from its beginning.
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
	for _, c := range choices {
		if c.verdict == verdictSame {
			return in.shared(choices)
		}
	}
	return in.pieces(choices)
}

// identities are what the file may be, by the first records in it: as many as pieceBytes hold,
// whatever a batch holds, so that an import that was stopped in the file decides alike.
func (in *fileReader) identities() ([]tree.Entity, error) {
	lines := in.lines
	if lines.step != pieceBytes {
		lines = &lineReader{f: in.lines.f, size: in.file.size, step: pieceBytes, decode: kindOfLine}
	}
	first, err := lines.first()
	if err != nil {
		return nil, err
	}
	return identities(in.file.path, first.records), nil
}

// pieces sends what is left of the file.
func (in *fileReader) pieces(choices []choice) error {
	for {
		p, err := in.lines.next()
		if err != nil {
			return trouble(err)
		}
		if err := in.send(&step{
			kind: stepPiece, row: in.row, piece: p, choices: choices,
			tail: in.tailKind(p.tail),
		}); err != nil {
			return err
		}
		choices = nil
		if p.last {
			return nil
		}
	}
}
