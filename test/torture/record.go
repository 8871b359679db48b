package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A record is everything that a process wrote to the folder on the disk, and its reports, in the
// order in which the calls returned.
type record struct {
	folder  string
	base    map[string]int // object by name, before the process
	objects [][]byte       // content by object, before the process
	inodes  map[uint64]int // object by inode, for as long as it has it
	events  []event
	hit     int   // events before the first fault
	failed  error // a call that can't be held here
}

// An event is one entry of a record.
type event struct {
	kind   eventKind
	object int
	offset int64
	data   []byte
	size   int64
	name   string // relative to the folder
	to     string
	began  int  // of a sync: what came before this event is on the disk when it succeeds
	ok     bool // of a sync
	line   string
}

type eventKind int

const (
	evWrite eventKind = iota
	evResize
	evSync
	evSyncFolder
	evCreate
	evLink
	evRename
	evRemove
	evMkdir
	evLine
)

// newRecord records the content of the folder, which counts as being on the disk.
func newRecord(folder string) (*record, error) {
	r := &record{folder: folder, base: map[string]int{}, inodes: map[uint64]int{}}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		node, err := inode(path)
		r.base[r.relative(path)] = r.add(node, data)
		return err
	})
	return r, err
}

func (r *record) add(node uint64, data []byte) int {
	r.objects = append(r.objects, data)
	r.inodes[node] = len(r.objects) - 1
	return len(r.objects) - 1
}

func (r *record) relative(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, r.folder), "/")
}

func (r *record) say(line string) { r.events = append(r.events, event{kind: evLine, line: line}) }

// armed is the number of events before the script's first operation.
func (r *record) armed() int {
	return slices.IndexFunc(r.events, func(e event) bool { return e.line == "armed" })
}

// begin records the call's place among the events. It returns whether its result matters.
func (r *record) begin(c *call) bool {
	c.begun = len(r.events)
	return c.class.changes()
}

// take adds a call that has returned.
func (r *record) take(c *call) {
	ok := c.result >= 0
	if !ok && c.class != syncs {
		return
	}
	e := event{name: r.relative(c.path), to: r.relative(c.to), object: -1, began: c.begun, ok: ok}
	if object, known := r.inodes[c.file]; known && c.file != 0 {
		e.object = object
	}
	switch c.name {
	case "write", "pwrite64":
		e.kind, e.offset, e.data = evWrite, c.offset, c.data[:c.result]
	case "ftruncate", "fallocate", "truncate":
		e.kind, e.size = evResize, c.size
		if c.name == "fallocate" {
			e.size = -c.size // at least
		}
	case "fsync", "fdatasync":
		e.kind = evSync
		if e.object < 0 {
			e.kind = evSyncFolder
		}
	case "open", "openat":
		e.kind = evResize // with O_TRUNC
		if c.fresh {
			e.kind, e.object = evCreate, r.add(c.file, nil)
		}
	case "link", "linkat":
		e.kind = evLink
	case "rename", "renameat", "renameat2":
		e.kind = evRename
	case "unlink", "unlinkat", "rmdir":
		e.kind = evRemove
	case "mkdir", "mkdirat":
		e.kind = evMkdir
	case "chmod", "fchmod", "fchmodat":
		return
	default:
		r.failed = fmt.Errorf("the record can't hold %s of %s", c.name, c.path)
		return
	}
	if e.object < 0 && (e.kind == evWrite || e.kind == evResize || e.kind == evLink) {
		r.failed = fmt.Errorf("%s of %s: an unknown file", c.name, c.path)
		return
	}
	r.events = append(r.events, e)
}
