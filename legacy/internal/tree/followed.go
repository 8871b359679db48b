package tree

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"selvedge/db"
)

// ErrOtherFolder says that a folder is not the one that was imported before under its name. Matches db.ErrConflict.
var ErrOtherFolder = fmt.Errorf("%w: it is not the folder that was imported before", db.ErrConflict)

// A folderID tells a folder from one that comes to lie at its path: another disk, or the place where a disk was mounted.
type folderID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

func (id folderID) String() string { return fmt.Sprintf("inode %d of device %d", id.Inode, id.Device) }

func folderIDOf(info os.FileInfo) folderID {
	stat := info.Sys().(*syscall.Stat_t)
	return folderID{Device: uint64(stat.Dev), Inode: stat.Ino} //nolint:unconvert // a device is an int32 elsewhere
}

// journalled is what the journal keeps as the files of an import. Programs from before left the folder out.
type journalled struct {
	Files
	Folder *folderID `json:"folder,omitempty"`
}

const (
	sqlLastFiles = `SELECT files FROM imports WHERE source = ? AND files IS NOT NULL ORDER BY id DESC LIMIT 1`
	sqlRoots     = `SELECT root FROM import_sources WHERE scope = ? AND kind = ?`
)

// CheckFollowed reports, as [ErrOtherFolder], that dir is not the folder that was imported before: another one lies there, or it can't be
// read. It is nil where nothing was imported from there.
func CheckFollowed(ctx context.Context, d *db.DB, l Layout, dir string, o Options) error {
	t, err := openTree(d, l, dir, o)
	if err == nil {
		return t.checkFollowed(ctx)
	}
	return checkLost(ctx, d, l, dir, o, err)
}

func (t *Tree) checkFollowed(ctx context.Context) error {
	var was, is journalled
	err := t.DB.Read(ctx, "look for the folder", func(rx *db.Rx) error {
		was = journalled{}
		s, ok, err := findSource(rx, t.Scope, t.layout.Name(), t.Root)
		var text string
		if err == nil && ok {
			ok, err = rx.Find(&text, sqlLastFiles, s.ID)
		}
		if err != nil || !ok {
			return err
		}
		return json.Unmarshal([]byte(text), &was)
	})
	if err != nil || was.Folder == nil {
		return err
	}
	info, err := os.Stat(t.Root)
	if err == nil {
		id := folderIDOf(info)
		is.Folder = &id
		_, err = os.ReadDir(t.Root)
	}
	switch {
	case err != nil:
		return otherFolder(t.Root, "it can't be read now: %w", err)
	case *is.Folder != *was.Folder:
		return otherFolder(t.Root, "then it was %s, and now it is %s", was.Folder, is.Folder)
	}
	return nil
}

// checkLost judges that no tree could be opened in dir: one that was imported from there, or below it, has gone.
func checkLost(ctx context.Context, d *db.DB, l Layout, dir string, o Options, failure error) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	var lost []byte
	err = d.Read(ctx, "look for the folder", func(rx *db.Rx) error {
		lost = nil
		scope, ok, err := rx.Scope(o.Scope)
		if err != nil || !ok {
			return err
		}
		var roots [][]byte
		err = rx.Select(&roots, sqlRoots, scope, l.Name())
		for _, root := range roots {
			if string(root) == abs || strings.HasPrefix(string(root), strings.TrimSuffix(abs, "/")+"/") {
				lost = root
			}
		}
		return err
	})
	if err == nil && lost != nil {
		err = otherFolder(string(lost), "it is gone, or can't be read: %w", failure)
	}
	return err
}

func otherFolder(root, format string, args ...any) error {
	return &db.Error{
		Op: "import", Entity: "folder", ID: Shown(root),
		Hint: "see that it is there and mounted; if another folder is meant to be followed from now on, say so: --yes",
		Err:  fmt.Errorf("%w: %w", ErrOtherFolder, fmt.Errorf(format, args...)),
	}
}
