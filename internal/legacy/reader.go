package legacy

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

	"selvedge/db"
)

// reader is the reading half of an import: it walks the tree, finds out what the ledger knows of each file, and decodes
// what is new.
type reader struct {
	*importer
	steps chan *step
	done  chan error
	gone  int64
}

// below is where path, a path below root, is. Nothing is cleaned: a name is what the file system says.
func below(root, path string) string { return root + "/" + path }

func (r *reader) run(ctx context.Context) error {
	defer close(r.steps)
	err := r.layout.walk(r.root, func(path string) error {
		return r.file(ctx, path)
	}, func(path, reason string) error {
		return r.send(ctx, &step{kind: stepIgnored, file: &sourceFile{path: path}, reason: reason, opens: true})
	})
	if err != nil {
		return err
	}
	r.gone, err = r.source.gone(ctx, r.d, r.root)
	return err
}

func (r *reader) send(ctx context.Context, st *step) error {
	select {
	case r.steps <- st:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// file reads one file. Trouble with it ends its reading and nothing else.
func (r *reader) file(ctx context.Context, path string) error {
	file := &sourceFile{path: path}
	at := below(r.root, path)
	f, size, err := openSource(at)
	if err != nil {
		return r.send(ctx, &step{kind: stepUnread, file: file, reason: why(at, err), opens: true})
	}
	defer f.Close() //nolint:errcheck // only read
	file.size = size
	in := &fileReader{reader: r, file: file, lines: r.linesOf(f, size)}
	err = in.run(ctx)
	if read, ok := errors.AsType[*readError](err); ok {
		return r.send(ctx, &step{kind: stepUnread, file: file, reason: why(at, read.err), opens: !in.sent})
	}
	return err
}

// linesOf cuts the file into pieces that fit the batches.
func (x *importer) linesOf(f *os.File, size int64) *lineReader {
	return &lineReader{f: f, size: size, step: min(pieceBytes, x.o.batchBytes()), decode: x.layout.decode}
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
	*reader
	file  *sourceFile
	lines *lineReader
	row   *ledgerRow
	sent  bool
}

func (in *fileReader) run(ctx context.Context) error {
	err := in.d.Read(ctx, "look a file up", func(rx *db.Rx) (err error) {
		in.row, err = in.source.file(rx, in.file.path)
		return err
	})
	if err == nil && in.row == nil {
		err = in.followMove(ctx)
	}
	if err != nil {
		return err
	}
	if in.row == nil {
		return in.anew(ctx)
	}
	known, closed, err := in.skipKnown()
	switch {
	case err != nil:
		return trouble(err)
	case !known:
		return in.anew(ctx)
	}
	same, err := in.lines.rest(in.row.Tail)
	if err != nil {
		return trouble(err)
	}
	same = same && !closed
	again := false
	if in.row.State != stateTaken {
		again, err = in.again(ctx, same)
		if err != nil {
			return err
		}
	}
	switch {
	case again, !same && in.row.Consumed == 0: // without a whole line its identity was a guess
		return in.anew(ctx)
	case same:
		return in.send(ctx, &step{kind: stepSame, row: in.row, tail: in.tailKind(in.row.Tail)})
	}
	return in.pieces(ctx, nil)
}

// followMove finds the row of a file that had another path when it was imported: its id is held by a file that is gone.
// Later versions and people rename folders. The ledger is told at once; that takes no part of the batches.
func (in *fileReader) followMove(ctx context.Context) error {
	ids, err := in.identities()
	if err != nil {
		return trouble(err)
	}
	was, err := in.vanished(ctx, ids)
	if err != nil || was == "" {
		return err
	}
	return in.d.Write(ctx, "follow a file that was moved", func(tx *db.Tx) (err error) {
		if err = in.source.move(tx, was, in.file.path); err == nil {
			in.row, err = in.source.file(&tx.Rx, in.file.path)
		}
		return err
	})
}

// vanished is the path of the file that the first of the ids came from, if there is no such file any more.
func (in *fileReader) vanished(ctx context.Context, ids []entity) (was string, err error) {
	err = in.d.Read(ctx, "look for the file that an id came from", func(rx *db.Rx) error {
		_, _, by, err := in.standing(rx, ids[0])
		was = string(by)
		return err
	})
	if was == "" || err != nil {
		return "", err
	}
	if _, err := os.Lstat(below(in.root, was)); errors.Is(err, fs.ErrNotExist) {
		return was, nil
	}
	return "", nil
}

// skipKnown reads what was consumed before. known is false if that is not what the file begins with any more; closed is
// true if the last consumed line has got the line feed it was without.
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

// again reports whether a file whose records are not here as its own is to be looked at as if it were new: it has
// changed, or what it met has gone. A refused file that an import was stopped in is gone on with.
func (in *fileReader) again(ctx context.Context, same bool) (bool, error) {
	if !same {
		return in.row.State == stateShared || in.row.complete(), nil
	}
	if in.row.State == stateShared {
		return false, nil
	}
	here := false
	err := in.d.Read(ctx, "look for the cause of a conflict", func(rx *db.Rx) (err error) {
		_, here, err = in.store.state(rx, in.row.entity())
		return err
	})
	return !here, err
}

func (in *fileReader) tailKind(tail []byte) string {
	if len(tail) == 0 {
		return ""
	}
	kind, _, _ := in.layout.decode(tail)
	return kind
}

func (in *fileReader) send(ctx context.Context, st *step) error {
	st.file, st.opens = in.file, !in.sent
	in.sent = true
	return in.reader.send(ctx, st)
}

// anew reads the file from its beginning, once who it may be is clear.
func (in *fileReader) anew(ctx context.Context) error {
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
			return in.shared(ctx, choices)
		}
	}
	return in.pieces(ctx, choices)
}

// identities are what the file may be, by the first records in it: as many as pieceBytes hold, whatever a batch holds, so
// that an import that was stopped in the file decides alike.
func (in *fileReader) identities() ([]entity, error) {
	lines := in.lines
	if lines.step != pieceBytes {
		lines = &lineReader{f: in.lines.f, size: in.file.size, step: pieceBytes, decode: in.layout.decode}
	}
	first, err := lines.first()
	if err != nil {
		return nil, err
	}
	return in.layout.identities(in.file.path, first.records), nil
}

// pieces sends what is left of the file.
func (in *fileReader) pieces(ctx context.Context, choices []choice) error {
	for {
		p, err := in.lines.next()
		if err != nil {
			return trouble(err)
		}
		if err := in.send(ctx, &step{kind: stepPiece, row: in.row, piece: p, choices: choices, tail: in.tailKind(p.tail)}); err != nil {
			return err
		}
		choices = nil
		if p.last {
			return nil
		}
	}
}
