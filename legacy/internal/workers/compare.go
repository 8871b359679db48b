package workers

import (
	"bytes"

	"selvedge/internal/tree"
	pool "selvedge/internal/workers"
)

// difference is what a runtime's folder and ours have in common, by kind of record, and of which files.
type difference struct {
	counts map[string]tree.Count
	files  tree.Files
	extra  int64 // records of ours that the folder does not have
}

func (d *difference) same() bool {
	for _, c := range d.counts {
		if c.New > 0 || c.Changed > 0 {
			return false
		}
	}
	return d.extra == 0
}

func (d *difference) count(part *tree.Part) {
	for kind, more := range d.counts {
		part.Count(kind, func(c *tree.Count) {
			c.Read += more.Read
			c.New += more.New
			c.Already += more.Already
			c.Changed += more.Changed
		})
	}
	part.Files.New += d.files.New
	part.Files.Grown += d.files.Grown
	part.Files.Already += d.files.Already
	part.Files.Changed += d.files.Changed
}

func (d *difference) add(kind string, more tree.Count) {
	c := d.counts[kind]
	c.Read += more.New + more.Already + more.Changed
	c.New += more.New
	c.Already += more.Already
	c.Changed += more.Changed
	d.counts[kind] = c
}

// document compares one. given is the imported text that ours still stands as, exported what an
// export would write.
func (d *difference) document(kind string, theirs, given, exported []byte) {
	switch {
	case theirs == nil:
	case bytes.Equal(theirs, given) || bytes.Equal(theirs, exported):
		d.files.Already++
		d.add(kind, tree.Count{Already: 1})
		return
	default:
		d.files.Changed++
		d.add(kind, tree.Count{Changed: 1})
		return
	}
	if kind == "runtime" { // counted by its folder
		d.add(kind, tree.Count{Already: 1})
	}
}

func (d *difference) lines(kind string, theirs, ours [][]byte) {
	var c tree.Count
	for i, line := range theirs {
		switch {
		case i >= len(ours):
			c.New++
		case bytes.Equal(line, ours[i]):
			c.Already++
		default:
			c.Changed++
		}
	}
	d.extra += int64(max(0, len(ours)-len(theirs)))
	switch {
	case c.Changed > 0 || len(ours) > len(theirs):
		d.files.Changed++
	case c.New > 0 && c.Already > 0:
		d.files.Grown++
	case c.New > 0:
		d.files.New++
	default:
		d.files.Already++
	}
	d.add(kind, c)
}

func compareRuntime(t *content, ours *pool.Exported) *difference {
	d := &difference{counts: map[string]tree.Count{}}
	d.document("runtime", t.imported.Snapshot, ours.Given, ours.Snapshot)
	d.lines("event", t.imported.Events, ours.Events)
	known := map[string]*pool.ExportedWorker{}
	for i := range ours.Workers {
		known[ours.Workers[i].WorkerID] = &ours.Workers[i]
	}
	for _, w := range t.imported.Workers {
		o, ok := known[w.WorkerID]
		if ok {
			d.document("worker", w.Snapshot, o.Given, o.Snapshot)
			d.lines("entry", w.Entries, o.Entries)
			delete(known, w.WorkerID)
			continue
		}
		d.files.New++
		d.lines("entry", w.Entries, nil)
		if w.Snapshot != nil {
			d.add("worker", tree.Count{New: 1})
		}
	}
	d.extra += int64(len(known))
	return d
}
