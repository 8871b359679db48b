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
	ctx   context.Context
	steps chan *step
	done  chan error
	gone  int64
}

// below is where path, a path below root, is. Nothing is cleaned: a name is what the file system says.
func below(root, path string) string { return root + "/" + path }

func (r *reader) run() error {
	defer close(r.steps)
	err := r.layout.walk(r.root, r.file, func(path, reason string) error {
		return r.send(&step{kind: stepIgnored, file: &sourceFile{path: path}, reason: reason, opens: true})
	})
	if err != nil {
		return err
	}
	return r.countGone()
}

func (r *reader) send(st *step) error {
	select {
	case r.steps <- st:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// file reads one file. Trouble with it ends its reading and nothing else.
func (r *reader) file(path string) error {
	file := &sourceFile{path: path}
	at := below(r.root, path)
	f, size, err := openSource(at)
	if err != nil {
		return r.send(&step{kind: stepUnread, file: file, reason: why(at, err), opens: true})
	}
	defer f.Close() //nolint:errcheck // only read
	file.size = size
	in := &fileReader{reader: r, file: file, lines: &lineReader{f: f, size: size, decode: r.layout.decode}}
	err = in.run()
	var trouble *readTrouble
	if errors.As(err, &trouble) {
		return r.send(&step{kind: stepUnread, file: file, reason: why(at, trouble.err), opens: !in.sent})
	}
	return err
}

// readTrouble is an error of the source, not of ours.
type readTrouble struct{ err error }

func (e *readTrouble) Error() string { return e.err.Error() }

func trouble(err error) error {
	if err == nil {
		return nil
	}
	return &readTrouble{err}
}

// countGone counts the files that were imported once and are not in the tree any more.
func (r *reader) countGone() error {
	for after := []byte{}; ; {
		var rows []ledgerRow
		err := r.d.Read(r.ctx, "look for files that are gone", func(rx *db.Rx) (err error) {
			rows, err = r.source.filesAfter(rx, after, 1000)
			return err
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		for i := range rows {
			if _, err := os.Lstat(below(r.root, string(rows[i].Path))); errors.Is(err, fs.ErrNotExist) {
				r.gone++
			}
		}
		after = rows[len(rows)-1].Path
	}
}

// fileReader reads one open file.
type fileReader struct {
	*reader
	file  *sourceFile
	lines *lineReader
	row   *ledgerRow
	sent  bool
}

func (in *fileReader) run() error {
	err := in.d.Read(in.ctx, "look a file up", func(rx *db.Rx) (err error) {
		in.row, err = in.source.file(rx, in.file.path)
		return err
	})
	if err != nil {
		return err
	}
	if in.row == nil {
		return in.anew()
	}
	known, closed, err := in.skipKnown()
	switch {
	case err != nil:
		return trouble(err)
	case !known:
		return in.anew()
	}
	same, err := in.lines.rest(in.row.Tail)
	if err != nil {
		return trouble(err)
	}
	same = same && !closed
	again := false
	if in.row.State != stateTaken {
		again, err = in.again(same)
		if err != nil {
			return err
		}
	}
	switch {
	case again, !same && in.row.Consumed == 0: // without a whole line its identity was a guess
		return in.anew()
	case same:
		return in.send(&step{kind: stepSame, row: in.row, tail: in.tailKind(in.row.Tail)})
	}
	return in.pieces(nil)
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
func (in *fileReader) again(same bool) (bool, error) {
	if !same {
		return in.row.State == stateShared || in.row.complete(), nil
	}
	if in.row.State == stateShared {
		return false, nil
	}
	here := false
	err := in.d.Read(in.ctx, "look for the cause of a conflict", func(rx *db.Rx) (err error) {
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

func (in *fileReader) send(st *step) error {
	st.file, st.opens = in.file, !in.sent
	in.sent = true
	return in.reader.send(st)
}

// anew reads the file from its beginning, once who it may be is clear.
func (in *fileReader) anew() error {
	in.lines.rewind()
	first, err := in.lines.next()
	if err != nil {
		return trouble(err)
	}
	choices, err := in.choose(first)
	if err != nil {
		return err
	}
	for _, c := range choices {
		if c.verdict == verdictSame {
			return in.shared(choices)
		}
	}
	return in.pieces(first, choices...)
}

// pieces sends first, if it was read already, and all that follow.
func (in *fileReader) pieces(first *piece, choices ...choice) error {
	for p := first; ; p = nil {
		if p == nil {
			var err error
			if p, err = in.lines.next(); err != nil {
				return trouble(err)
			}
		}
		if err := in.send(&step{kind: stepPiece, row: in.row, piece: p, choices: choices, tail: in.tailKind(p.tail)}); err != nil {
			return err
		}
		choices = nil
		if p.last {
			return nil
		}
	}
}
