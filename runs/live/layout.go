// The layout of the old store: runs/SESSION.json, an array of records per session; in later
// versions v1/sessions/id_BASE64.json, a document with that array in it, and
// v1/runs/id_BASE64.json.
//
// A file is imported record by record: a bad record or a cut file affects no other record, and goes
// into quarantine with its bytes. Sealed documents are listed there. If a file has several records
// with one id, the last is imported, as by the original. An export writes runs/SESSION.json, which
// all versions read; later versions also need the session's own document next to it.

package live

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/internal/txn"
)

// Layout returns the layout of the old store's trees, for package legacy.
func Layout() tree.Layout { return layout{} }

type layout struct{}

// Name returns "live".
func (layout) Name() string { return "live" }

// Recognise accepts the folder given to the old store, if a run in it can be read.
func (l layout) Recognise(dir tree.Folder) (string, bool, error) {
	files, readable := 0, false
	found, err := tree.EachIn(l, dir, func(root tree.Folder, path string) {
		files++
		readable = readable || holdsRun(root, path)
	})
	return fmt.Sprintf("live runs: %d sessions", files), found && readable, err
}

// holdsRun reports whether a file holds a readable run.
func holdsRun(root tree.Folder, path string) bool {
	text, err := root.Read(path, maxFile)
	if err != nil {
		return false
	}
	elements, _ := parseFile(text)
	return slices.ContainsFunc(elements, func(e fileElement) bool { return e.Reason == "" })
}

// Root returns the folder that holds runs/ or v1/.
func (layout) Root(dir tree.Folder) (tree.Folder, error) {
	for _, inside := range []string{"runs", sessionsFolder, "v1/runs"} {
		if _, err := dir.Sub(inside); !errors.Is(err, fs.ErrNotExist) {
			return dir, err
		}
	}
	return tree.Folder{}, tree.NoTree(dir, "live runs", "name the folder that holds runs/ or v1/")
}

const sessionExtension = ".json"

// Walk calls file for what should hold records: later layouts first, as later versions read them,
// and files that are named after the session in them before copies of these.
func (layout) Walk(root tree.Folder, file func(string) error, ignored func(path, reason string) error) error {
	for _, folder := range []string{sessionsFolder, "v1/runs", "runs"} {
		switch _, err := root.Sub(folder); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			continue
		case errors.Is(err, db.ErrInvalid), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ELOOP):
			if err := ignored(folder, root.Why(folder, err)); err != nil {
				return err
			}
			continue
		case err != nil: // its contents are unknown
			return err
		}
		var copies []string
		err := root.Names(folder, func(name string) error {
			path := folder + "/" + name
			if stem, named := sessionOf(path); named {
				if folder == "runs" && !namedAfterSession(root, path, stem) {
					copies = append(copies, path)
					return nil
				}
				return file(path)
			}
			if folder == "runs" && root.IsFolder(path) {
				return nil // another program's, such as run traces
			}
			return ignored(path, "the name is no session's")
		})
		for _, path := range copies {
			if err == nil {
				err = file(path)
			}
		}
		if err != nil {
			return err
		}
	}
	return root.Names(".", func(name string) error {
		switch {
		case strings.HasSuffix(name, sessionExtension):
			return ignored(name, "a session's own document: it holds no runs")
		case name != "runs" && name != "v1":
			return ignored(name, "no runs of a session are in it")
		}
		return nil
	})
}

const sessionsFolder = "v1/sessions"

// Beside returns the documents of sessions: no store has more of them than their runs.
func (layout) Beside(t *tree.Tree) (list []tree.Kept, err error) {
	if _, err := t.Folder.Sub(sessionsFolder); err != nil {
		return nil, nil //nolint:nilerr // the walk says why
	}
	err = t.Folder.Names(sessionsFolder, func(name string) error {
		path := sessionsFolder + "/" + name
		if _, named := sessionOf(path); !named {
			return nil
		}
		if text, err := t.Folder.Read(path, maxFile); err == nil && holdsMore(text) {
			list = append(list, tree.Kept{
				Folder: t.Folder, Path: path, More: "a session's document: only its runs are in a store",
			})
		}
		return nil
	})
	return list, err
}

// namedAfterSession reports whether a file is named after the session of its first run, or does not
// name a session.
func namedAfterSession(root tree.Folder, path, stem string) bool {
	f, _, err := root.Open(path)
	if err != nil {
		return true
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	said := sessionMember().FindSubmatch(head[:n])
	var session string
	return said == nil || json.Unmarshal(said[1], &session) != nil || safeName(session) == stem
}

var sessionMember = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"session_id"\s*:\s*("(?:[^"\\]|\\.)*")`)
})

// sessionOf returns the session that a file is named after; in runs/ several ids can share a name.
func sessionOf(path string) (session string, ok bool) {
	folder, name := filepath.Split(path)
	stem, ok := strings.CutSuffix(name, sessionExtension)
	if folder == "runs/" || !ok {
		return stem, ok
	}
	encoded, ok := strings.CutPrefix(stem, "id_")
	id, err := base64.RawURLEncoding.DecodeString(encoded)
	return string(id), ok && err == nil
}

// ownerOf returns the name in runs/ of the session that a file is named after.
func ownerOf(path string) string {
	session, _ := sessionOf(path)
	return safeName(session)
}

// A file is one that was read, for import or for comparison.
type file struct {
	*tree.Tree
	scope    string // of the file's runs
	path     string
	text     []byte
	sum      []byte
	reason   string // why it cannot be read at all; "" if it can
	retried  bool   // it comes from quarantine, and nothing of it was imported
	elements []fileElement
	damage   *fileDamage
	lacks    map[string]struct{} // runs that inScope did not find
}

// maxFile is the largest file, in bytes. Later versions of the original stop at 256 MiB.
const maxFile = 512 << 20

func readFile(t *tree.Tree, path string) *file {
	f := &file{Tree: t, scope: t.Scope, path: path}
	text, err := t.Folder.Read(path, maxFile)
	if err != nil {
		f.reason = t.Folder.Why(path, err)
		return f
	}
	f.text, f.sum = text, sumOf(text)
	return f
}

// inScope sets the scope of the file's runs. It is the scope where they are. A session whose run
// ids another session's file of the tree has gets a scope of its own, since a run is found by its id
// alone. That other file may have a stray record of this session.
func (f *file) inScope(rx *db.Rx) error {
	f.lacks = map[string]struct{}{}
	f.scope = f.Scope
	var scope string
	found, err := rx.Find(&scope, sqlScopeOfFile, f.Source.ID, []byte(f.path))
	if err != nil || found {
		f.scope = cmp.Or(scope, f.Scope)
		return err
	}
	own := "" // the session that the file is named after, if its first record agrees
	for i := range f.elements {
		e := &f.elements[i]
		if e.Reason != "" {
			continue
		}
		session := e.Record.Snapshot.SessionID
		if i == 0 && safeName(session) == ownerOf(f.path) {
			own = session
		}
		ours, found, err := findImported(rx, f.scope, e.Record.Snapshot.ID)
		if err != nil {
			return err
		}
		if !found {
			f.lacks[e.Record.Snapshot.ID] = struct{}{}
			continue
		}
		stray := own != "" && ours.Source == f.Source.ID && ownerOf(string(ours.Path)) != ownerOf(f.path)
		if stray && ours.SessionID == session {
			same, err := holds(rx, ours.Key, e)
			if err != nil {
				return err
			}
			stray = !same
		}
		if ours.SessionID == session && !stray || ours.Source == f.Source.ID && string(ours.Path) == f.path {
			continue
		}
		own := ownScope(f.Scope, cmp.Or(own, session))
		if ours.Source != f.Source.ID { // another tree's, or an export of a separate session
			if _, found, err = findImported(rx, own, e.Record.Snapshot.ID); err != nil {
				return err
			} else if !found {
				continue
			}
		}
		f.scope = own
		return nil
	}
	return nil
}

// ownScope returns the scope of a session that is kept apart.
func ownScope(scope, session string) string {
	if scope != "" {
		scope += "/"
	}
	if own := scope + "live/" + session; txn.CheckID("scope", own) == nil {
		return own
	}
	return scope + "live/" + hex.EncodeToString(sumOf([]byte(session))[:8])
}

func (f *file) parse() {
	if f.elements == nil && f.damage == nil {
		f.elements, f.damage = parseFile(f.text)
	}
}

// Read sends a file as one piece.
func (layout) Read(_ context.Context, t *tree.Tree, path string, send func(tree.Piece) error) error {
	return send(readFile(t, path))
}
