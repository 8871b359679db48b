package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A cut is a moment at which the power fails, and the fate of the writes that were not yet
// durable.
type cut struct {
	at    int    // events before it
	draw  uint64 // seed of what survives
	liars bool   // for tests of the judge: no sync kept anything
}

// An image is made of the record up to a cut: what a successful sync covered is there; of
// everything else each sector and each change of a name is there or not, as the draw decides, in
// any order.
type image struct {
	*record
	cut     cut
	rand    *rand.Rand
	durable []bool // by event
	keep    func(i int) bool
	sector  int64
	zeros   bool // a file keeps its new size although the data written there is lost
}

func (r *record) image(c cut) *image {
	//nolint:gosec // a draw that can be repeated
	im := &image{record: r, cut: c, rand: rand.New(rand.NewPCG(c.draw, uint64(c.at)))}
	im.sector = []int64{512, 4096}[im.rand.IntN(2)]
	im.zeros = im.rand.IntN(2) == 0
	im.settle()
	var open []int // the events that may be lost
	for i, e := range r.events[:c.at] {
		if !im.durable[i] && e.kind != evLine && e.kind != evSync && e.kind != evSyncFolder {
			open = append(open, i)
		}
	}
	chance := func(p float64) func(int) bool { return func(int) bool { return im.rand.Float64() < p } }
	one := -1
	if len(open) > 0 {
		one = open[im.rand.IntN(len(open))]
	}
	im.keep = []func(int) bool{
		chance(0), chance(0.1), chance(0.5), chance(0.9),
		func(i int) bool { return i != one },
		func(i int) bool { return i == one },
		func(i int) bool { return i >= one }, // what came last was written first
		func(i int) bool { return i <= one },
	}[im.rand.IntN(8)]
	if c.draw == 0 {
		im.keep = chance(0)
	}
	return im
}

// settle finds the events that a sync has put on the disk. What a failed sync covered is on the
// disk only when it is written again: Linux takes the pages for clean (fsync(2), and the
// PostgreSQL project's "fsync errors").
func (im *image) settle() {
	im.durable = make([]bool, im.cut.at)
	if im.cut.liars {
		return
	}
	doomed := make([]bool, im.cut.at)
	for _, s := range im.events[:im.cut.at] {
		if s.kind != evSync && s.kind != evSyncFolder {
			continue
		}
		for i, e := range im.events[:s.began] {
			switch {
			case im.durable[i] || !s.covers(e):
			case !s.ok:
				doomed[i] = s.kind == evSync // the names are in the file system's journal still
			default:
				im.durable[i] = !doomed[i]
			}
		}
	}
}

// covers reports whether a sync puts an earlier event on the disk.
func (e event) covers(earlier event) bool {
	switch earlier.kind {
	case evWrite, evResize:
		return e.kind == evSync && e.object == earlier.object
	case evCreate, evLink, evRemove, evMkdir:
		return e.kind == evSyncFolder && folderOf(earlier.changed()) == e.name
	case evRename:
		return e.kind == evSyncFolder && folderOf(earlier.to) == e.name
	}
	return false
}

// changed is the name that the event makes or removes.
func (e event) changed() string {
	if e.kind == evLink {
		return e.to
	}
	return e.name
}

func folderOf(name string) string {
	if dir := filepath.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// there reports whether the event, or a part of it, is in the image.
func (im *image) there(i int) bool { return im.durable[i] || im.keep(i) }

// build writes the image into an empty folder.
func (im *image) build(folder string) error {
	names := maps.Clone(im.base)
	content := make([][]byte, len(im.objects))
	for i, data := range im.objects {
		content[i] = slices.Clone(data)
	}
	for i, e := range im.events[:im.cut.at] {
		switch e.kind {
		case evWrite:
			content[e.object] = im.write(content[e.object], i)
			continue
		case evLine, evSync, evSyncFolder:
			continue
		default:
		}
		if !im.there(i) {
			continue
		}
		switch e.kind {
		case evResize:
			content[e.object] = resize(content[e.object], e.size)
		case evCreate:
			names[e.name] = e.object
		case evLink:
			names[e.to] = e.object
		case evRemove:
			delete(names, e.name)
		case evRename:
			if object, ok := names[e.name]; ok {
				delete(names, e.name)
				names[e.to] = object
			}
		case evMkdir:
			if err := os.MkdirAll(filepath.Join(folder, e.name), 0o700); err != nil {
				return err
			}
		default:
			return fmt.Errorf("event %d has no meaning here", i)
		}
	}
	for name, object := range names {
		data := content[object]
		if strings.HasSuffix(name, "-shm") {
			data = im.noise(len(data)) // it is written through memory, and means nothing after the machine's start
		}
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// write puts those sectors of a write in place that are there.
func (im *image) write(content []byte, i int) []byte {
	e := im.events[i]
	end := e.offset + int64(len(e.data))
	for at := e.offset; at < end; {
		next := min(end, (at/im.sector+1)*im.sector)
		if im.there(i) {
			content = resize(content, -next)
			copy(content[at:next], e.data[at-e.offset:])
		} else if im.zeros {
			content = resize(content, -next)
		}
		at = next
	}
	return content
}

// resize makes content size bytes long; a negative size means that it grows to that, if it is shorter.
func resize(content []byte, size int64) []byte {
	have := int64(len(content))
	if size < 0 {
		size = max(have, -size)
	}
	if size <= have {
		return content[:size]
	}
	return append(content, make([]byte, size-have)...)
}

func (im *image) noise(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(im.rand.Uint32())
	}
	return data
}

// story returns the process's reports before the cut.
func (im *image) story(sc *script) *story {
	st := newStory(sc)
	for _, e := range im.events[:im.cut.at] {
		if e.kind == evLine {
			st.record(e.line)
		}
	}
	return st
}
