package legacy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"selvedge/db"
	"selvedge/internal/tree"
)

// hooked is a layout with something that happens in the middle of a retry.
type hooked struct {
	tree.Layout
	tree.OneByOne
	root func() // once it is decided that the file may be taken
	walk func() error
	sent int // pieces after which reading fails; 0: never
}

var errStopped = errors.New("stopped")

func (h hooked) Read(ctx context.Context, t *tree.Tree, path string, send func(tree.Piece) error) error {
	pieces := 0
	return h.Layout.Read(ctx, t, path, func(p tree.Piece) error {
		if pieces++; h.sent > 0 && pieces > h.sent {
			return errStopped
		}
		return send(p)
	})
}

func (h hooked) Root(dir tree.Folder) (tree.Folder, error) {
	if h.root != nil {
		h.root()
	}
	return h.Layout.Root(dir)
}

func (h hooked) Walk(root tree.Folder, file func(path string) error,
	ignored func(path, reason string) error,
) error {
	if h.walk != nil {
		if err := h.walk(); err != nil {
			return err
		}
	}
	return h.Layout.Walk(root, file, ignored)
}

// hook gives the layouts of a retry.
func hook(h hooked) func(kind string) (tree.Layout, error) {
	return func(kind string) (tree.Layout, error) {
		l, err := Kind(kind).layout()
		h.Layout = l
		h.OneByOne, _ = l.(tree.OneByOne)
		return h, err
	}
}

func TestRetry_StoppedFileIsImportedOnce(t *testing.T) {
	ctx := context.Background()
	for _, c := range collisions(t) {
		for _, refused := range []bool{false, true} {
			d := emptyFile(t)
			dir, q := c.collide(t, d)
			if err := c.remove(d); err != nil {
				t.Fatal(err)
			}
			if _, err := tree.RetryQuarantine(ctx, d, hook(hooked{walk: func() error { return errStopped }}), q.ID,
				Options{}); !errors.Is(err, errStopped) {
				t.Fatalf("%s: %v", c.kind, err)
			}
			if kept, err := ShowQuarantine(ctx, d, q.ID); err != nil || kept.Bytes != q.Bytes {
				t.Errorf("%s, stopped: %+v became %+v, %v", c.kind, q, kept, err)
			}
			if refused { // the id is taken again
				other := t.TempDir()
				folder{c.path: c.here}.below(t, other)
				if _, err := Import(ctx, d, c.kind, other, Options{}); err != nil {
					t.Fatal(err)
				}
			}
			report, err := Import(ctx, d, c.kind, dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			page, err := Quarantine(ctx, d, "", db.At{Limit: 10})
			left := page.Items
			switch {
			case err != nil:
				t.Error(err)
			case !refused && (report.Partial() || len(left) > 0):
				t.Errorf("%s, with the id free: left in quarantine %+v", c.kind, left)
			case refused && (len(left) != 1 || left[0].Bytes != q.Bytes):
				t.Errorf("%s, with the id taken: in quarantine %+v, where %d bytes were", c.kind, left, q.Bytes)
			}
		}
	}
}

func TestRetry_StoppedInFileKeepsItsBytes(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	lines := startedLine("a", "r")
	for i := range 20 {
		lines += turnLine(i)
	}
	c := collisions(t)[2]
	c.file = lines
	dir, q := c.collide(t, d)
	if err := c.remove(d); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.RetryQuarantine(ctx, d, hook(hooked{sent: 3}), q.ID,
		Options{BatchBytes: 1}); !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	if len(names(t, d, "")) != 1 {
		t.Fatal("nothing was taken before it was stopped")
	}
	if kept, err := ShowQuarantine(ctx, d, q.ID); err != nil || kept.Bytes != int64(len(lines)) {
		t.Errorf("stopped: %+v, %v", kept, err)
	}
	if report, err := Import(ctx, d, c.kind, dir, Options{}); err != nil || report.Files.Grown != 1 {
		t.Errorf("imported again: %+v, %v", report, err)
	}
	wantQuarantine(t, d, "")
	sameFiles(t, "exported", folder{"a/r.jsonl": lines}, exported(t, d, ""))
}

func TestRetry_LooksAgainOnceImportsExcluded(t *testing.T) {
	ctx, d := context.Background(), emptyFile(t)
	c := collisions(t)[1]
	dir, q := c.collide(t, d)
	if err := c.remove(d); err != nil {
		t.Fatal(err)
	}
	claimed := func() { // the old program claims it, and that is imported
		err := os.Rename(filepath.Join(dir, "r-1.json"), filepath.Join(dir, "r-1.inflight"))
		if err == nil {
			_, err = Import(ctx, d, Checkpoints, dir, Options{})
		}
		if err != nil {
			t.Error(err)
		}
	}
	r, err := tree.RetryQuarantine(ctx, d, hook(hooked{root: claimed}), q.ID, Options{})
	if err != nil || r.Taken || r.Reason == "" {
		t.Errorf("%+v, %v", r, err)
	}
	// nothing holds the folder, and what is here is what it has
	report, err := Import(ctx, d, Checkpoints, dir, Options{})
	if err != nil || report.Files.Already != 1 || report.Partial() {
		t.Errorf("imported again: %+v, %v", report, err)
	}
}
