package agents_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"selvedge/agents"
)

// Rule 27 for the trees of the registry: files whose name and inner id differ.

// collides reports whether a file could only be the entry of another file: its name is no id, and
// its id has a file.
func (p *treePlayer) collides(name string) bool {
	f := p.want.Inventory.Files[name]
	stem := strings.TrimSuffix(name, extension)
	if f.Entry.SessionID == nil || isID(stem) {
		return false
	}
	_, there := p.want.Inventory.Files[*f.Entry.SessionID+extension]
	return there
}

func (p *treePlayer) collisions() (n int64) {
	for name := range p.want.Inventory.Files {
		if p.collides(name) {
			n++
		}
	}
	return n
}

// inner is the id that stands in the file of an entry of ours (rule 27).
func (p *treePlayer) inner(id string) string {
	if f, ok := p.want.Inventory.Files[id+extension]; ok && f.Entry.SessionID != nil {
		return *f.Entry.SessionID
	}
	return id
}

// outer are the ids of ours for an id in the recorded answers.
func (p *treePlayer) outer(id string) (ids []string) {
	for name, f := range p.want.Inventory.Files {
		if f.Entry.SessionID == nil || *f.Entry.SessionID != id || p.collides(name) {
			continue
		}
		if stem := strings.TrimSuffix(name, extension); isID(stem) {
			ids = append(ids, stem)
		} else {
			ids = append(ids, id)
		}
	}
	return ids
}

func isID(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// withoutCollisions takes the entries of files in quarantine out of a list.
func (p *treePlayer) withoutCollisions(list any) (any, error) {
	entries, _ := list.([]any)
	for name := range p.want.Inventory.Files {
		if !p.collides(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.dir, "agents", name))
		if err != nil {
			return nil, err
		}
		e, err := agents.DecodeTOML(text)
		if err != nil {
			return nil, err
		}
		same := func(one any) bool { return sameValues.Diff(one, decoded(p.t, e)) == "" }
		if i := slices.IndexFunc(entries, same); i >= 0 { // -1: it is stale
			entries = slices.Delete(entries, i, i+1)
		}
	}
	return entries, nil
}

// quarantined reports whether an active entry with that id and thread is in a file that is in quarantine.
func (p *treePlayer) quarantined(id, thread string) bool {
	for name, f := range p.want.Inventory.Files {
		if p.collides(name) && *f.Entry.SessionID == id && f.Entry.Thread == thread &&
			f.Entry.Status == agents.Active {
			return true
		}
	}
	return false
}

// misnamed counts the files whose entry has another id.
func (p *treePlayer) misnamed() int {
	n := 0
	for name, f := range p.want.Inventory.Files {
		if f.Entry.SessionID != nil && *f.Entry.SessionID+extension != name {
			n++
		}
	}
	return n
}
