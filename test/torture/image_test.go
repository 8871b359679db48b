package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// told makes a record of a folder with one file, "base", and the events.
func told(events ...event) *record {
	return &record{base: map[string]int{"base": 0}, objects: [][]byte{[]byte("before"), nil}, events: events}
}

// images are the folders that the cuts of many draws leave, each as "name=content name=content".
func images(t *testing.T, r *record, at int) []string {
	t.Helper()
	var list []string
	for draw := range uint64(200) {
		folder := t.TempDir()
		must(t, r.image(cut{at: at, draw: draw}).build(folder))
		entries, err := os.ReadDir(folder)
		must(t, err)
		var parts []string
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(folder, e.Name()))
			must(t, err)
			parts = append(parts, e.Name()+"="+strings.ReplaceAll(string(data), "\x00", "."))
		}
		list = append(list, strings.Join(parts, " "))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func write(object int, offset int64, data string) event {
	return event{kind: evWrite, object: object, offset: offset, data: []byte(data)}
}

func TestImage_HasSyncedDataAndAnyRest(t *testing.T) {
	sectors := strings.Repeat("a", 512) + "b"
	for name, c := range map[string]struct {
		events []event
		want   []string
	}{
		"a write": {[]event{write(0, 0, "after!")}, []string{"base=after!", "base=before"}},
		"a synced write": {
			[]event{write(0, 0, "after!"), {kind: evSync, object: 0, began: 1, ok: true}},
			[]string{"base=after!"},
		},
		"a write during the sync": {
			[]event{write(0, 0, "after!"), {kind: evSync, object: 0, began: 0, ok: true}},
			[]string{"base=after!", "base=before"},
		},
		"a write after a failed sync is not saved by the next": {
			[]event{
				write(0, 0, "after!"),
				{kind: evSync, object: 0, began: 1},
				{kind: evSync, object: 0, began: 2, ok: true},
			},
			[]string{"base=after!", "base=before"},
		},
		"two writes in any order": {
			[]event{write(0, 0, "1"), write(0, 1, "2")},
			[]string{"base=12fore", "base=1efore", "base=b2fore", "base=before"},
		},
		"a new file": {
			[]event{
				{kind: evCreate, object: 1, name: "new"},
				write(1, 0, "x"),
				{kind: evSync, object: 1, began: 2, ok: true},
			},
			[]string{"base=before", "base=before new=x"},
		},
		"a new file whose folder was synced": {
			[]event{
				{kind: evCreate, object: 1, name: "new"},
				write(1, 0, "x"),
				{kind: evSyncFolder, object: -1, began: 2, ok: true},
			},
			[]string{"base=before new=", "base=before new=.", "base=before new=x"},
		},
		"a rename": {
			[]event{{kind: evRename, object: 0, name: "base", to: "other"}},
			[]string{"base=before", "other=before"},
		},
		"a removal that is on the disk": {
			[]event{{kind: evRemove, object: 0, name: "base"}, {kind: evSyncFolder, object: -1, began: 1, ok: true}},
			[]string{""},
		},
		"a truncation": {
			[]event{{kind: evResize, object: 0, size: 2}},
			[]string{"base=be", "base=before"},
		},
		"a write of two sectors": {
			[]event{
				{kind: evResize, object: 0, size: 0},
				{kind: evSync, object: 0, began: 1, ok: true},
				write(0, 0, sectors),
			},
			[]string{
				"base=", "base=" + strings.Repeat(".", 512) + "b", "base=" + strings.Repeat(".", 513),
				"base=" + strings.Repeat("a", 512), "base=" + strings.Repeat("a", 512) + ".", "base=" + sectors,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Sort(c.want)
			if got := images(t, told(c.events...), len(c.events)); !slices.Equal(got, c.want) {
				t.Errorf("the images are %q, want %q", got, c.want)
			}
		})
	}
}

func TestImage_SameDrawIsSameImage(t *testing.T) {
	r := told(write(0, 0, "1"), write(0, 1, "2"), write(0, 2, "3"))
	one, two := t.TempDir(), t.TempDir()
	must(t, r.image(cut{at: 3, draw: 7}).build(one))
	must(t, r.image(cut{at: 3, draw: 7}).build(two))
	a, err := os.ReadFile(filepath.Join(one, "base"))
	must(t, err)
	b, err := os.ReadFile(filepath.Join(two, "base"))
	must(t, err)
	if string(a) != string(b) {
		t.Errorf("%q and %q", a, b)
	}
}
