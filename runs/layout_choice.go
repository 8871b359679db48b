package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"

	"selvedge/db"
	"selvedge/internal/tree"
)

// verdict is what the store holds under an id that a file may have.
type verdict int

const (
	verdictUnknown verdict = iota // not looked at
	verdictFree                   // nothing
	verdictSibling                // another file of the same tree
	verdictSame                   // from elsewhere, with the file's content
	verdictOther                  // from elsewhere, with other content
)

// A choice is an id that a file may have, and what the reader found under it. The writer checks
// again; it cannot decide about a change since then without reading.
type choice struct {
	tree.Entity
	verdict verdict
	was     stored
}

// choose checks the ids that the file may have, best first.
//
// An id that another file of the same tree holds is passed over for the next one, so that nothing
// of a tree is lost. A run from elsewhere under an id is never joined with the file: if its content
// is the same, the file is in the store already; if not, the file is refused. The same content
// under any of the file's ids counts, since an export of the run under its second-best id must be
// recognised.
func (in *fileReader) choose(ctx context.Context, ids []tree.Entity) ([]choice, error) {
	choices := make([]choice, len(ids))
	settled, refused := false, false
	for i, e := range ids {
		c := &choices[i]
		if c.Entity = e; settled {
			continue
		}
		if in.isFree(e) {
			c.verdict = verdictFree
		} else if err := in.DB.Read(ctx, "look up who holds an id", func(rx *db.Rx) (err error) {
			c.verdict, c.was, _, err = standing(rx, in.Tree, e)
			return err
		}); err != nil {
			return nil, err
		}
		if c.verdict == verdictOther {
			same, err := in.isTrace(ctx, e)
			if err != nil {
				return nil, err
			}
			if same {
				c.verdict = verdictSame
			}
		}
		refused = refused || c.verdict == verdictOther
		settled = c.verdict == verdictSame || c.verdict == verdictFree && !refused
	}
	return choices, nil
}

// standing returns what the store holds under e and, for a sibling, the path of its file. A run
// from elsewhere is verdictOther until its content is compared.
func standing(rx *db.Rx, t *tree.Tree, e tree.Entity) (verdict, stored, []byte, error) {
	s, ok, err := stateOf(rx, t.Source.Scope, e)
	if err != nil || !ok {
		return verdictFree, s, nil, err
	}
	held, ok, err := t.Source.Holder(rx, e, s.Row)
	if err == nil && ok && held.Source == t.Source.ID {
		return verdictSibling, s, held.Path, nil
	}
	return verdictOther, s, nil, err
}

// isTrace reports whether the file equals what an export of e would write.
func (in *fileReader) isTrace(ctx context.Context, e tree.Entity) (bool, error) {
	ours, theirs := sha256.New(), sha256.New()
	if err := (traceContent{in.Tree, e}).write(ctx, ours); err != nil {
		return false, err
	}
	_, err := io.Copy(theirs, io.NewSectionReader(in.lines.f, 0, in.file.size))
	return bytes.Equal(ours.Sum(nil), theirs.Sum(nil)), trouble(err)
}

// shared reads the file to its end for the counts, and sends that its content is in the store
// already, from elsewhere.
func (in *fileReader) shared(choices []choice) error {
	st := &step{kind: stepShared, choices: choices, records: tree.Tally{}}
	for {
		p, err := in.lines.next()
		if err != nil {
			return trouble(err)
		}
		with(st.records, p.records)
		if st.piece = p; p.last {
			break
		}
	}
	st.tail = tailKind(st.piece.tail)
	st.piece.records, st.raw = nil, nil
	return in.send(st)
}
