package runs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

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
	choices := make([]choice, 0, len(ids))
	settled := false
	for _, e := range ids {
		if settled {
			choices = append(choices, choice{Entity: e})
			continue
		}
		c, err := in.look(ctx, e)
		if err != nil {
			return nil, err
		}
		if c.verdict == verdictOther {
			same, err := in.compare(ctx, e)
			if err != nil {
				return nil, err
			}
			if same {
				c.verdict = verdictSame
			}
		}
		choices = append(choices, c)
		other := slices.ContainsFunc(choices, func(c choice) bool { return c.verdict == verdictOther })
		settled = c.verdict == verdictSame || c.verdict == verdictFree && !other
	}
	return choices, nil
}

// look gives what stands under e; what comes from elsewhere is verdictOther until it has been compared.
func (in *fileReader) look(ctx context.Context, e tree.Entity) (c choice, err error) {
	c.Entity = e
	if in.isFree(e) {
		c.verdict = verdictFree
		return c, nil
	}
	err = in.DB.Read(ctx, "look up who holds an id", func(rx *db.Rx) error {
		var err error
		c.verdict, c.was, _, err = in.standing(rx, e)
		return err
	})
	return c, err
}

// standing is what stands under e, and for a sibling the name of its file.
func (r *room) standing(rx *db.Rx, e tree.Entity) (verdict, stored, []byte, error) {
	s, ok, err := r.store.state(rx, e)
	if err != nil || !ok {
		return verdictFree, s, nil, err
	}
	held, ok, err := r.Source.Holder(rx, e, s.Row)
	if err != nil {
		return verdictUnknown, s, nil, err
	}
	if ok && held.Source == r.Source.ID {
		return verdictSibling, s, held.Path, nil
	}
	return verdictOther, s, nil, nil
}

var errDiffers = errors.New("differs")

// compare reports whether the file is what an export of e would write.
func (in *fileReader) compare(ctx context.Context, e tree.Entity) (bool, error) {
	file := bufio.NewReader(io.NewSectionReader(in.lines.f, 0, in.file.size))
	err := traceContent{in.room, e}.each(ctx, func(text []byte, lf bool) error {
		if lf {
			text = append(slices.Clip(text), '\n')
		}
		have := make([]byte, len(text))
		switch _, err := io.ReadFull(file, have); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errDiffers
		case err != nil:
			return trouble(err)
		case !bytes.Equal(have, text):
			return errDiffers
		}
		return nil
	})
	if err == nil {
		if _, err = file.ReadByte(); errors.Is(err, io.EOF) {
			return true, nil
		}
		return false, trouble(err)
	}
	if errors.Is(err, errDiffers) {
		err = nil
	}
	return false, err
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
	st.tail = in.tailKind(st.piece.tail)
	st.piece.records, st.raw = nil, nil
	return in.send(st)
}
