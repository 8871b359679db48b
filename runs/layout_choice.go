package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"

	"selvedge/db"
	"selvedge/internal/tree"
)

// verdict is what stands in the store under an id that a file may take.
type verdict int

const (
	verdictUnknown verdict = iota // not looked at
	verdictFree                   // nothing
	verdictSibling                // another file of the same tree
	verdictSame                   // from elsewhere, and the file's very content
	verdictOther                  // from elsewhere, with other content
)

// A choice is something that a file may be, and what the reader saw there. The writer looks again:
// what it finds changed since can't be decided without reading.
type choice struct {
	tree.Entity
	verdict verdict
	was     stored
}

// choose looks at what the file may be, the best first.
//
// Rules: an id that another file of the same tree holds is passed over for the next one, so that
// nothing of a tree is lost. An id that is there from elsewhere is never joined: with the same
// content the file is there already, with other content it is refused. The same content under any
// of the file's ids counts, since an export of what stood under the second best id must be known
// again.
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

// standing is what stands under e, and for a sibling the name of its file. What comes from elsewhere
// is verdictOther until its content is compared.
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

// isTrace reports whether the file is what an export of e would write.
func (in *fileReader) isTrace(ctx context.Context, e tree.Entity) (bool, error) {
	ours, theirs := sha256.New(), sha256.New()
	if err := (traceContent{in.Tree, e}).write(ctx, ours); err != nil {
		return false, err
	}
	_, err := io.Copy(theirs, io.NewSectionReader(in.lines.f, 0, in.file.size))
	return bytes.Equal(ours.Sum(nil), theirs.Sum(nil)), trouble(err)
}

// shared reads the file to its end for the counts, and says that all of it is here from elsewhere.
func (in *fileReader) shared(choices []choice) error {
	st := &step{kind: stepShared, row: in.row, choices: choices, records: tree.Tally{}}
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
