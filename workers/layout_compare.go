package workers

import (
	"bytes"

	"selvedge/internal/tree"
)

// A comparison counts how the files of a runtime's folder differ from ours.
type comparison struct {
	part    *tree.Part
	differs bool
}

// compareRuntime counts into part and reports whether anything differs.
func compareRuntime(theirs, ours *runtimeFiles, part *tree.Part) (differs bool) {
	c := &comparison{part: part}
	if theirs.snapshot == nil { // the folder counts
		c.count("runtime", 1, tree.Already)
	} else {
		c.document("runtime", theirs.snapshot, ours.given, ours.snapshot)
	}
	c.lines("event", theirs.events, ours.events)
	rest := map[WorkerID]*workerFiles{}
	for i := range ours.workers {
		rest[ours.workers[i].id] = &ours.workers[i]
	}
	for _, w := range theirs.workers {
		o, known := rest[w.id]
		delete(rest, w.id)
		switch {
		case !known:
			part.Files.New++
			c.lines("entry", w.entries, nil)
			if w.snapshot != nil {
				c.differs = true
				c.count("worker", 1, tree.New)
			}
			continue
		case w.snapshot != nil:
			c.document("worker", w.snapshot, o.given, o.snapshot)
		}
		c.lines("entry", w.entries, o.entries)
	}
	return c.differs || len(rest) > 0
}

func (c *comparison) count(kind string, n int, column func(*tree.Count) *int64) {
	c.part.CountAll(tree.Tally{kind: int64(n)}, column)
}

// document compares a snapshot. given is the imported text, if ours is unchanged since; exported is
// what an export would write.
func (c *comparison) document(kind string, theirs, given, exported []byte) {
	if bytes.Equal(theirs, given) || bytes.Equal(theirs, exported) {
		c.part.Files.Already++
		c.count(kind, 1, tree.Already)
		return
	}
	c.differs = true
	c.part.Files.Changed++
	c.count(kind, 1, tree.Changed)
}

func (c *comparison) lines(kind string, theirs, ours [][]byte) {
	both, already := min(len(theirs), len(ours)), 0
	for i := range both {
		if bytes.Equal(theirs[i], ours[i]) {
			already++
		}
	}
	added, changed := len(theirs)-both, both-already
	c.count(kind, added, tree.New)
	c.count(kind, already, tree.Already)
	c.count(kind, changed, tree.Changed)
	c.differs = c.differs || added > 0 || changed > 0 || len(ours) > both
	switch files := &c.part.Files; {
	case changed > 0 || len(ours) > both:
		files.Changed++
	case added > 0 && already > 0:
		files.Grown++
	case added > 0:
		files.New++
	default:
		files.Already++
	}
}
