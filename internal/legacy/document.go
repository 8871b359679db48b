package legacy

import (
	"bytes"
	"context"
	"iter"
	"os"

	"selvedge/db"
)

// documentLayout is what the core has to know about a kind of tree whose files are whole documents, each one thing in the
// store.
type documentLayout interface {
	name() string
	// noun is what the counts call a document.
	noun() string
	// root is the absolute path of the folder of documents that dir, the folder a person names, is or holds.
	root(dir string) (string, error)
	// walk is as that of layout.
	walk(root string, file func(path string) error, ignored func(path, reason string) error) error
	// read decodes a document; reason says why it is none, "" if it is one.
	read(text []byte) (value any, reason string)
	// identities are the things that the document at path may be, the best first. claimed tells whether the tree has a
	// file at a path, which then is the better owner of what leads there.
	identities(path string, value any, claimed func(path string) bool) []entity
	// own is the thing that the document says it is.
	own(value any) entity
	path(e entity) (path, problem string)
	title(e entity) string
	prepare(dir string) (root string, err error)
	documents(d *db.DB, scope string) documentStore
}

// keepsFlawed is a layout whose documents are taken also where the old program can't read them; they stand in quarantine
// besides.
type keepsFlawed interface {
	// flaw is why the old program can't read the document; "" if it can.
	flaw(value any) string
}

// documentStore is the import door of a store of documents, for one scope.
type documentStore interface {
	// row is the number of e's row.
	row(rx *db.Rx, e entity) (row int64, ok bool, err error)
	// text is the thing in a row as a file of the old layout.
	text(rx *db.Rx, row int64) (text []byte, ok bool, err error)
	// put adds a thing; db.ErrInvalid says that it can't be taken.
	put(tx *db.Tx, e entity, value any, text []byte) (row int64, err error)
	remove(tx *db.Tx, row int64) error
	// entities gives the things of the scope for an export.
	entities(ctx context.Context) iter.Seq2[entity, error]
}

// maxDocument is the largest document that is taken.
const maxDocument = 64 << 20

// A documentFile is a file that was read.
type documentFile struct {
	path   string
	text   []byte
	sum    []byte
	value  any
	reason string // why it is no document, or can't be read
	unread bool   // it can't even be read
	flaw   string // see keepsFlawed
}

// noun is what the counts call the document.
func (f *documentFile) noun(l documentLayout) string {
	if f.reason != "" || f.flaw != "" {
		return kindUndecodable
	}
	return l.noun()
}

// readDocument reads a file of the tree. Nothing of what may be wrong with it is an error.
func readDocument(l documentLayout, root, path string) *documentFile {
	at := below(root, path)
	f := &documentFile{path: path}
	text, err := readSource(at, maxDocument)
	if err != nil {
		f.reason, f.unread = why(at, err), true
		return f
	}
	f.text, f.sum = text, sumOf(text)
	f.value, f.reason = l.read(f.text)
	if keeps, ok := l.(keepsFlawed); ok && f.reason == "" {
		f.flaw = keeps.flaw(f.value)
	}
	return f
}

// A documentImport brings one tree in, some files in a transaction.
type documentImport struct {
	d      *db.DB
	layout documentLayout
	store  documentStore
	source source
	root   string
	o      Options
	report Report
	at     Progress
}

func newDocumentImport(d *db.DB, l documentLayout, scope, root string, o Options) *documentImport {
	return &documentImport{d: d, layout: l, store: l.documents(d, scope), root: root, o: o, report: newReport(l.name(), scope, root)}
}

func runDocumentImport(ctx context.Context, d *db.DB, l documentLayout, scope, dir string, o Options) (Report, error) {
	root, err := l.root(dir)
	if err != nil {
		return newReport(l.name(), scope, dir), err
	}
	x := newDocumentImport(d, l, scope, root, o)
	err = x.source.importing(ctx, d, &x.report, root, func() error { return x.files(ctx) })
	return x.report, err
}

// files reads and writes in turns.
func (x *documentImport) files(ctx context.Context) error {
	if err := x.o.totals(&x.at, x.root, x.layout.walk); err != nil {
		return err
	}
	var pending []*documentFile
	bytes := 0
	flush := func() error {
		err := x.commit(ctx, pending)
		pending, bytes = pending[:0], 0
		return err
	}
	err := x.layout.walk(x.root, func(path string) error {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		f := readDocument(x.layout, x.root, path)
		pending, bytes = append(pending, f), bytes+len(f.text)
		if bytes < x.o.batchBytes() && len(pending) < maxSteps {
			return nil
		}
		return flush()
	}, x.report.ignore)
	if err != nil {
		return err
	}
	return flush()
}

// commit takes a batch in one transaction; what it counts is added when it is committed. Most of a second import changes
// nothing, which a read finds out.
func (x *documentImport) commit(ctx context.Context, files []*documentFile) error {
	if len(files) == 0 {
		return nil
	}
	known, part := false, newReport("", "", "")
	err := x.d.Read(ctx, "look for changes of a tree", func(rx *db.Rx) (err error) {
		part = newReport("", "", "")
		known, err = x.unchanged(rx, files, &part)
		return err
	})
	if err == nil && !known {
		err = x.d.Write(ctx, "import "+x.layout.name(), func(tx *db.Tx) error {
			part = newReport("", "", "")
			for _, f := range files {
				if err := (&documentBatch{x, tx, &part}).file(f); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		return err
	}
	x.report.add(&part)
	x.progress(files)
	return nil
}

func (x *documentImport) progress(files []*documentFile) {
	for _, f := range files {
		x.at.Files++
		x.at.Bytes += int64(len(f.text))
	}
	if x.o.Progress != nil {
		x.o.Progress(x.at)
	}
}

// unchanged reports whether all files are as they were and were taken.
func (x *documentImport) unchanged(rx *db.Rx, files []*documentFile, part *Report) (bool, error) {
	for _, f := range files {
		if f.reason != "" {
			return false, nil
		}
		row, err := x.source.file(rx, f.path)
		if err != nil || row == nil || row.State == stateRefused || !bytes.Equal(row.PrefixSHA256, f.sum) {
			return false, err
		}
		countFile(part, f)
		part.Files.Already++
		part.count(f.noun(x.layout), func(c *Count) { c.Read++; c.Already++ })
	}
	return true, nil
}

func countFile(part *Report, f *documentFile) {
	part.Files.Found++
	part.Files.Bytes += int64(len(f.text))
}

// claimed tells whether the tree has a file at path.
func (x *documentImport) claimed(path string) bool {
	_, err := os.Stat(below(x.root, path))
	return err == nil
}
