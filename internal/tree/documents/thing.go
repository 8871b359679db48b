package documents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"

	"selvedge/db"
	"selvedge/internal/tree"
)

// maxDocument is the size of the largest document that is imported, in bytes.
const maxDocument = 64 << 20

// A document is a file of a tree.
type document struct {
	path   string
	text   []byte
	sum    []byte // SHA-256
	value  any
	reason string // why it is no document, or can't be read
	unread bool   // the file can't even be read
	gone   bool   // there is no such file; unread is set too
	flaw   string // why the old program can't read it

	row *tree.Row // the ledger's, in the transaction under way; nil: none
}

// readFile reads a file of the tree. What may be wrong with it is no error.
func readFile(k Kind, root tree.Folder, path string) *document {
	f := &document{path: path}
	text, err := root.Read(path, maxDocument)
	if err != nil {
		f.reason, f.unread, f.gone = root.Why(path, err), true, root.Lacks(path)
		return f
	}
	f.text, f.sum = text, sumOf(text)
	f.value, f.reason, f.flaw = k.Decode(f.text)
	return f
}

// Readable reports whether the old program can read the document at path.
func Readable(k Kind, root tree.Folder, path string) bool {
	f := readFile(k, root, path)
	return f.reason == "" && f.flaw == ""
}

func sumOf(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:]
}

// damaged reports whether the file is there and holds no document.
func (f *document) damaged() bool { return f.reason != "" && !f.gone }

// A thing is what the folder holds of one thing of the store: a document, or one file for each
// state in which the old program keeps it, most of which are missing.
type thing struct {
	Kind
	tree  *tree.Tree
	files []*document // one for each form
}

// maxLooks is how often a thing is read again at most while the old program renames its files.
const maxLooks = 8

// look reads all files of the thing that the file at path belongs to. If the old program renamed
// one meanwhile, it reads them again: else a claim would look as if the thing were gone.
func (l Layout) look(t *tree.Tree, path string) *thing {
	for try := 1; ; try++ {
		th := &thing{Kind: l.Kind, tree: t}
		for _, form := range l.Forms(path) {
			th.files = append(th.files, readFile(l.Kind, t.Folder, form))
		}
		moved := func(f *document) bool { return f.gone != t.Folder.Lacks(f.path) }
		if try == maxLooks || !slices.ContainsFunc(th.files, moved) {
			return th
		}
	}
}

// Read sends a thing as one piece, with the first of its files.
func (l Layout) Read(_ context.Context, t *tree.Tree, path string, send func(tree.Piece) error) error {
	if _, sent := t.Sent[path]; sent {
		delete(t.Sent, path)
		return nil
	}
	th := l.look(t, path)
	for _, f := range th.files {
		if f.path > path && !f.gone {
			t.Sent[f.path] = struct{}{}
		}
	}
	return send(th)
}

// Gone is the piece of a thing that has no file any more.
func (l Layout) Gone(t *tree.Tree, path string) tree.Piece {
	if th := l.look(t, path); th.isGone() {
		return th
	}
	return nil // imported with its other file, or back, for the next import
}

func (th *thing) isGone() bool {
	return !slices.ContainsFunc(th.files, func(f *document) bool { return !f.gone })
}

// isDamaged reports whether a file of the thing can't be read or holds no document.
func (th *thing) isDamaged() bool { return slices.ContainsFunc(th.files, (*document).damaged) }

// Path is the first path at which a file exists, or the first form if none does.
func (th *thing) Path() string {
	i := slices.IndexFunc(th.files, func(f *document) bool { return !f.gone })
	return th.files[max(i, 0)].path
}

// Held is the size of the documents in memory, in bytes.
func (th *thing) Held() int {
	_, held := th.Progress()
	return int(held)
}

// Progress counts the files that exist.
func (th *thing) Progress() (files, bytes int64) {
	for _, f := range th.files {
		if !f.gone {
			files, bytes = files+1, bytes+int64(len(f.text))
		}
	}
	return files, bytes
}

// Prefetch names the queries about the files, and about what new ones may be.
func (th *thing) Prefetch(f *tree.Prefetcher) error {
	for _, form := range th.files {
		f.File(form.path)
		if !form.gone {
			f.Aside(th.tree, form.path)
		}
		switch {
		case !f.Taken(), form.gone && len(th.files) == 1: // it is unknown what it was
			continue
		case form.damaged():
			f.ExpectAside(1)
			continue
		case !form.gone:
			if form.flaw != "" {
				f.ExpectAside(1)
			}
			f.Expect(th.Tables()[0].Name, 1)
		}
		own := th.Own(form.path, form.value)
		f.About("thing " + own.Group + "\x00" + own.ID)
		query, args := th.Query(th.tree.Source.Scope, own)
		f.Ask(query, args...)
	}
	return nil
}

// load reads the ledger's rows of the files: none for a form that did not exist when the thing was
// imported.
func (th *thing) load(rx *db.Rx) (err error) {
	for _, f := range th.files {
		if f.row, err = th.tree.Source.File(rx, f.path); err != nil {
			return err
		}
	}
	return nil
}

// imported is one of the rows of what was imported; nil if nothing of the thing was, or it was
// refused.
func (th *thing) imported() *tree.Row {
	for _, f := range th.files {
		if f.row != nil && f.row.State != tree.StateRefused {
			return f.row
		}
	}
	return nil
}

// moved reports whether the old program changed a form since it was imported. A file that can't be
// read counts as changed if only its name is new.
func (th *thing) moved(f *document) bool {
	switch {
	case f.gone:
		return f.row != nil && f.row.State != tree.StateRefused
	case f.reason != "":
		return f.row == nil && th.imported() != nil
	}
	return f.row == nil || !bytes.Equal(f.row.PrefixSHA256, f.sum)
}

// Known counts a thing that was imported and has not changed.
func (th *thing) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	if th.tree.Unread || th.isDamaged() {
		return false, nil
	}
	if err := th.load(rx); err != nil || slices.ContainsFunc(th.files, th.moved) {
		return false, err
	}
	for _, f := range th.files {
		if f.gone {
			continue
		}
		f.countFile(part)
		if err := th.same(rx, f, part); err != nil {
			return false, err
		}
	}
	return true, th.nameConflict(rx, part)
}

func (f *document) countFile(part *tree.Part) {
	part.Files.Found++
	part.Files.Bytes += int64(len(f.text))
}

// noun is what counts call the document.
func (th *thing) noun(f *document) string {
	if f.reason != "" || f.flaw != "" {
		return tree.Undecodable
	}
	return th.Tables()[0].Noun
}

// count counts the document in a column of the report.
func (th *thing) count(f *document, part *tree.Part, column func(*tree.Count) *int64) {
	part.CountAll(tree.Tally{th.noun(f): 1}, column)
}

// same counts a file that has not changed, and reports again what is in quarantine of it.
func (th *thing) same(rx *db.Rx, f *document, part *tree.Part) error {
	column, flaws, files := tree.Already, int64(0), &part.Files.Already
	switch {
	case f.row.State == tree.StateRefused:
		column, files = tree.Quarantine, &part.Files.Refused
	case f.flaw != "" && f.row.State == tree.StateTaken:
		column, flaws = tree.Quarantine, 1
	}
	*files++
	th.count(f, part, column)
	return th.tree.NameAside(rx, f.path, flaws, part)
}

// nameConflict reports the open conflict over the thing, if there is one, in every import.
func (th *thing) nameConflict(rx *db.Rx, part *tree.Part) error {
	row := th.imported()
	if row == nil || !th.tree.Contests {
		return nil
	}
	reason, err := th.tree.Source.Contested(rx, row.EntityID)
	if err == nil && reason != "" {
		part.Contested(th.Path(), row.EntityID, reason)
	}
	return err
}
