package legacy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"selvedge/db"
	"selvedge/internal/live"
)

// Live are the trees of the session store that kept live runs: runs/SESSION.json, an array of records a session, and in
// later versions v1/sessions/id_BASE64.json, a document that has the array in it, and v1/runs/id_BASE64.json.
//
// A file is taken record by record: what is wrong with one, or a cut, leaves the others alone, and goes into quarantine with
// its bytes. Sealed documents are named there. Of records with one id in a file the last is taken, as by the original. An
// export writes runs/SESSION.json, which all versions read; later ones want the session's own document beside it.
type Live struct{}

// Name is "live".
func (Live) Name() string { return "live" }

// Recognise takes the folder that was given to the old store.
func (Live) Recognise(dir string) (string, bool, error) {
	root, err := liveRoot(dir)
	if errors.Is(err, db.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	files := 0
	err = walkLive(root, func(string) error {
		files++
		return nil
	}, func(string, string) error { return nil })
	return fmt.Sprintf("live runs: %d sessions", files), err == nil && files > 0, err
}

// Import brings sessions in.
func (Live) Import(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	x, err := newLiveImport(d, scope, dir, o)
	if err != nil {
		return x.report, err
	}
	err = x.source.importing(ctx, d, &x.report, x.root, func() error { return x.files(ctx, x.take) })
	return x.report, err
}

// Verify compares sessions with what was imported.
func (Live) Verify(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	x, err := newLiveImport(d, scope, dir, o)
	if err != nil {
		return x.report, err
	}
	err = x.source.verifying(ctx, d, &x.report, x.root, func() error { return x.files(ctx, x.verify) })
	return x.report, err
}

// liveRoot finds the folder from itself or from its runs/ or v1/.
func liveRoot(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, inside := range []string{"runs", "v1/sessions", "v1/runs"} {
		if info, err := os.Stat(filepath.Join(abs, inside)); err == nil && info.IsDir() {
			return filepath.EvalSymlinks(abs)
		}
	}
	return "", &db.Error{Op: "open tree", Entity: "live runs", ID: dir, Err: db.ErrNotFound, Hint: "name the folder that holds runs/ or v1/"}
}

const sessionExtension = ".json"

// walkLive calls file for what should hold records: later layouts first, as the later versions read them.
func walkLive(root string, file func(path string) error, ignored func(path, reason string) error) error {
	for _, folder := range []string{"v1/sessions", "v1/runs", "runs"} {
		if info, err := os.Stat(below(root, folder)); err != nil || !info.IsDir() {
			continue
		}
		err := eachName(below(root, folder), func(name string) error {
			path := folder + "/" + name
			if _, named := liveSession(path); named {
				return file(path)
			}
			if folder == "runs" && isFolder(below(root, path)) {
				return nil // another program's, such as run traces
			}
			return ignored(path, "the name is no session's")
		})
		if err != nil {
			return err
		}
	}
	return eachName(root, func(name string) error {
		if strings.HasSuffix(name, sessionExtension) {
			return ignored(name, "a session's own document: it holds no runs")
		}
		return nil
	})
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// liveSession is the session that a file is named after: of runs/, the name that several ids can have.
func liveSession(path string) (session string, ok bool) {
	folder, name := filepath.Split(path)
	stem, ok := strings.CutSuffix(name, sessionExtension)
	if folder == "runs/" || !ok {
		return stem, ok
	}
	encoded, ok := strings.CutPrefix(stem, "id_")
	id, err := base64.RawURLEncoding.DecodeString(encoded)
	return string(id), ok && err == nil
}

// A liveImport brings one tree in, or verifies it.
type liveImport struct {
	d      *db.DB
	store  live.Table
	source source
	scope  string
	root   string
	o      Options
	report Report
	at     Progress
}

func newLiveImport(d *db.DB, scope, dir string, o Options) (*liveImport, error) {
	x := &liveImport{d: d, store: live.Table{Scope: scope}, scope: scope, o: o}
	root, err := liveRoot(dir)
	if err != nil {
		root = dir
	}
	x.root, x.report = root, newReport("live", scope, root)
	return x, err
}

// A liveFile is a file that was read.
type liveFile struct {
	path     string
	text     []byte
	sum      []byte
	reason   string // why it can't be read at all; "" if it can
	elements []live.FileElement
	damage   *live.Damage
}

// maxLiveFile is the largest file that is taken. The later versions of the original stop at 256 MiB.
const maxLiveFile = 512 << 20

func (x *liveImport) read(path string) *liveFile {
	f := &liveFile{path: path}
	at := below(x.root, path)
	text, err := readSource(at, maxLiveFile)
	if err != nil {
		f.reason = why(at, err)
		return f
	}
	f.text, f.sum = text, sumOf(text)
	return f
}

func (f *liveFile) parse() {
	if f.elements == nil && f.damage == nil {
		f.elements, f.damage = live.ReadFile(f.text)
	}
}

// files reads file after file and has each visited.
func (x *liveImport) files(ctx context.Context, visit func(context.Context, *liveFile) error) error {
	if err := x.o.totals(&x.at, x.root, walkLive); err != nil {
		return err
	}
	return walkLive(x.root, func(path string) error {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		f := x.read(path)
		if err := visit(ctx, f); err != nil {
			if ctx.Err() != nil {
				return stopped(ctx)
			}
			return fmt.Errorf("%s: %w", shown(path), err)
		}
		x.at.Files++
		x.at.Bytes += int64(len(f.text))
		if x.o.Progress != nil {
			x.o.Progress(x.at)
		}
		return nil
	}, x.report.ignore)
}
