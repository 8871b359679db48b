package replay

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Checkpoints is a model of the original's checkpoint store: a folder of names. With Ours it is the
// store as it is meant to be here, which answers otherwise by rules 15, 16, 17 and 20.
type Checkpoints struct {
	Ours bool
	// Read returns the value of a document as the original decodes it; an error if it can't read
	// it.
	Read func(document []byte) (json.RawMessage, error)
	// Write returns the document that the original writes for a value.
	Write func(paused json.RawMessage) ([]byte, error)

	entries map[string]folderEntry
	beside  map[string]folderEntry // Ours: what lies in the folder and is no record
	gone    bool                   // the folder is
	// Cause is the last rule by which Ours differed.
	Cause int
}

type folderEntry struct {
	kind   string // file, dir or symlink
	data   []byte
	target string
}

// folderError is an error of the original.
type folderError struct{ kind string }

func (e *folderError) Error() string { return e.kind }

func folderFails(kind string) error { return &folderError{kind} }

const (
	pausedExtension  = ".json"
	claimedExtension = ".inflight"
	longestName      = 255
)

// Play makes a call on the model.
func (m *Checkpoints) Play(c *Call) Outcome {
	if m.entries == nil {
		m.entries = map[string]folderEntry{}
	}
	ok, err := m.answer(c)
	if err != nil {
		kind := ""
		if e, is := errors.AsType[*folderError](err); is {
			kind = e.kind
		}
		return Fails(err, kind)
	}
	return Outcome{OK: ok}
}

func (m *Checkpoints) answer(c *Call) (any, error) {
	id := c.Text("run_id")
	if m.Ours && (len(id) > 1024 || strings.Contains(id, "\x00")) {
		return nil, folderFails("InvalidInput")
	}
	switch c.Op {
	case "reopen":
		m.gone = false
		return nil, nil
	case "save":
		return nil, m.save(c.Raw("paused"))
	case "load":
		return m.read(id, id+pausedExtension)
	case "claim":
		return m.claim(id)
	case "complete":
		return nil, m.removeFile(id, claimedExtension)
	case "remove":
		if err := m.removeFile(id, pausedExtension); err != nil {
			return nil, err
		}
		return nil, m.removeFile(id, claimedExtension)
	case "recover_orphaned":
		return m.recover()
	case "list":
		if m.gone {
			return nil, folderFails("NotFound")
		}
		return m.list(), nil
	case "fs.list":
		return m.folder(), nil
	}
	return nil, m.file(c)
}

// check returns the file system's answer for a name made of id and around further bytes.
func (m *Checkpoints) check(id string, around int) error {
	switch {
	case m.Ours:
		return nil
	case strings.Contains(id, "\x00"):
		m.Cause = 16
		return folderFails("InvalidInput")
	case strings.Contains(id, "/"), m.gone:
		return folderFails("NotFound")
	case len(id)+around > longestName:
		m.Cause = 16
		return folderFails("InvalidFilename")
	}
	return nil
}

func (m *Checkpoints) save(paused json.RawMessage) error {
	var named struct {
		RunID string `json:"run_id"`
	}
	if err := json.Unmarshal(paused, &named); err != nil {
		return err
	}
	if m.Ours && (len(named.RunID) > 1024 || strings.Contains(named.RunID, "\x00")) {
		return folderFails("InvalidInput")
	}
	document, err := m.Write(paused)
	if err != nil {
		return err
	}
	if err := m.check(named.RunID, len("..tmp")+1+32); err != nil {
		return err
	}
	if m.entries[named.RunID+pausedExtension].kind == "dir" {
		m.entries["."+named.RunID+".$hex32.tmp"] = folderEntry{kind: "file", data: document}
		return folderFails("IsADirectory")
	}
	m.entries[named.RunID+pausedExtension] = folderEntry{kind: "file", data: document}
	return nil
}

// follow returns the target of a name.
func (m *Checkpoints) follow(name string) (folderEntry, error) {
	for range 40 {
		e, ok := m.entries[name]
		if !ok {
			return folderEntry{}, folderFails("NotFound")
		}
		if e.kind != "symlink" {
			return e, nil
		}
		name = e.target
	}
	return folderEntry{}, folderFails("FilesystemLoop")
}

// end is the name that a write to name goes to.
func (m *Checkpoints) end(name string) string {
	for range 40 {
		e := m.entries[name]
		if e.kind != "symlink" {
			break
		}
		name = e.target
	}
	return name
}

func (m *Checkpoints) read(id, name string) (any, error) {
	if err := m.check(id, len(name)-len(id)); err != nil {
		return orNull(err)
	}
	e, err := m.follow(name)
	if err != nil {
		return orNull(err)
	}
	if e.kind == "dir" {
		return nil, folderFails("IsADirectory")
	}
	value, err := m.Read(e.data)
	if err != nil {
		m.Cause = 15
		return nil, folderFails("InvalidData")
	}
	return value, nil
}

// orNull turns "not found" into nothing.
func orNull(err error) (any, error) {
	if e, is := errors.AsType[*folderError](err); is && e.kind == "NotFound" {
		return nil, nil
	}
	return nil, err
}

func (m *Checkpoints) claim(id string) (any, error) {
	from, to := id+pausedExtension, id+claimedExtension
	if err := m.check(id, len(pausedExtension)); err != nil {
		return orNull(err)
	}
	e, there := m.entries[from]
	if !there {
		return nil, nil
	}
	if err := m.check(id, len(claimedExtension)); err != nil {
		return nil, err
	}
	if m.Ours {
		if value, err := m.read(id, from); err != nil {
			return value, err
		}
	}
	if _, err := m.follow(from); err == nil {
		if err := m.removeFile(id, claimedExtension); err != nil {
			return nil, err
		}
	}
	delete(m.entries, from)
	m.entries[to] = e
	return m.read(id, to)
}

func (m *Checkpoints) removeFile(id, extension string) error {
	if err := m.check(id, len(extension)); err != nil {
		_, err = orNull(err)
		return err
	}
	if m.entries[id+extension].kind == "dir" {
		return folderFails("IsADirectory")
	}
	delete(m.entries, id+extension)
	return nil
}

func (m *Checkpoints) recover() (any, error) {
	if m.gone {
		return nil, folderFails("NotFound")
	}
	rearmed := 0
	for _, name := range slices.Sorted(maps.Keys(m.entries)) {
		id, is := m.stem(name, claimedExtension)
		if !is {
			continue
		}
		if _, err := m.follow(id + pausedExtension); err == nil {
			if err := m.removeFile(id, claimedExtension); err != nil {
				return nil, err
			}
			continue
		}
		e := m.entries[name]
		delete(m.entries, name)
		m.entries[id+pausedExtension] = e
		if _, err := m.Read(e.data); m.Ours && err != nil {
			continue
		}
		rearmed++
	}
	return rearmed, nil
}

// stem is the id in a name. The original's library sees no extension in a name that begins with its only dot.
func (m *Checkpoints) stem(name, extension string) (string, bool) {
	id, is := strings.CutSuffix(name, extension)
	return id, is && (id != "" || m.Ours) && utf8.ValidString(name)
}

func (m *Checkpoints) list() []string {
	ids := []string{}
	for name := range m.entries {
		if id, is := m.stem(name, pausedExtension); is {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// folder lists the content: of the original everything, of ours the record files' names.
func (m *Checkpoints) folder() any {
	if m.Ours {
		return m.Records()
	}
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(m.entries)) {
		e := m.entries[name]
		one := map[string]any{"kind": e.kind, "path": name}
		switch e.kind {
		case "file":
			one["bytes"], one["mode"] = len(e.data), "0644"
		case "dir":
			one["mode"] = "0755"
		case "symlink":
			one["target"] = e.target
		}
		list = append(list, one)
	}
	return list
}

// Records are the names of the record files: those of ids that a name can hold.
func (m *Checkpoints) Records() []string {
	names := []string{}
	for name := range m.entries {
		isRecord := strings.HasSuffix(name, pausedExtension) || strings.HasSuffix(name, claimedExtension)
		if isRecord && len(name) <= longestName && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// file is an op on the folder itself. Ours is exported before it and imported after it.
func (m *Checkpoints) file(c *Call) error {
	for name, e := range m.beside {
		if _, replaced := m.entries[name]; !replaced {
			m.entries[name] = e
		}
	}
	path := c.Text("path")
	switch c.Op {
	case "fs.write", "fs.append":
		data := []byte(c.Text("text"))
		if c.Has("hex") {
			var err error
			if data, err = hex.DecodeString(c.Text("hex")); err != nil {
				return err
			}
		}
		path = m.end(path)
		if c.Op == "fs.append" {
			data = append(slices.Clone(m.entries[path].data), data...)
		}
		m.entries[path] = folderEntry{kind: "file", data: data}
	case "fs.truncate":
		var bytes int
		if err := c.Unmarshal("bytes", &bytes); err != nil {
			return err
		}
		path = m.end(path)
		if e, there := m.entries[path]; there {
			data := append(slices.Clone(e.data), make([]byte, max(0, bytes-len(e.data)))...)
			m.entries[path] = folderEntry{kind: "file", data: data[:bytes]}
		}
	case "fs.rename":
		if e, there := m.entries[c.Text("from")]; there {
			delete(m.entries, c.Text("from"))
			m.entries[c.Text("to")] = e
		}
	case "fs.mkdir":
		m.entries[path] = folderEntry{kind: "dir"}
		m.Cause = 17
	case "fs.symlink":
		m.entries[path] = folderEntry{kind: "symlink", target: c.Text("target")}
		m.Cause = 17
	case "fs.remove":
		delete(m.entries, path)
	case "fs.remove_dir":
		if m.Cause = 17; path == "" {
			clear(m.entries)
			m.gone = !m.Ours
		}
		delete(m.entries, path)
	default:
		return fmt.Errorf("the model knows no op %s", c.Op)
	}
	if m.Ours {
		m.adopt()
	}
	return nil
}

// adopt separates what an import of the folder brings in, the contents of record files, from the
// rest.
func (m *Checkpoints) adopt() {
	records := map[string]folderEntry{}
	m.beside = maps.Clone(m.entries)
	for _, name := range m.Records() {
		e, err := m.follow(name)
		if err != nil || e.kind != "file" {
			continue
		}
		if _, err := m.Read(e.data); err != nil && (name == pausedExtension || name == claimedExtension) {
			continue // the original sees no extension there; only a record of the run "" is taken
		}
		records[name] = folderEntry{kind: "file", data: e.data}
		delete(m.beside, name)
	}
	m.entries = records
}
