package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"selvedge/db"
)

// ErrOtherFolder says that a folder is not the one that was imported before under its name. Matches
// db.ErrConflict.
var ErrOtherFolder = fmt.Errorf("%w: it is not the folder that was imported before", db.ErrConflict)

// A folderID tells a folder from one that comes to lie at its path: another disk, or the place
// where a disk was mounted.
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
	// One that was killed, or of a program from before, may say nothing of the folder.
	sqlLastFolder = `SELECT files FROM imports WHERE source = ? AND files LIKE '%"folder":{%' ORDER BY id DESC
		LIMIT 1`
	sqlRoots = `SELECT id, root FROM import_sources WHERE scope = ? AND kind = ?`
)

// look finds the folder itself, and that it can be read.
func look(root string) (os.FileInfo, error) {
	info, err := os.Stat(root)
	if err == nil {
		var f *os.File
		if f, err = os.Open(root); err == nil {
			_, err = f.Readdirnames(1)
			err = errors.Join(f.Close(), unless(err, io.EOF))
		}
	}
	return info, err
}

func unless(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// checkFolder reports, as ErrOtherFolder, that what look has found is not the folder that was
// imported before.
func checkFolder(rx *db.Rx, source int64, root string, info os.FileInfo, looked error) error {
	var text string
	known, err := rx.Find(&text, sqlLastFolder, source)
	if err != nil || !known {
		return err
	}
	var was journalled
	if err := json.Unmarshal([]byte(text), &was); err != nil {
		return fmt.Errorf("%w: the journal: %w", db.ErrCorrupt, err)
	}
	if looked != nil {
		return otherFolder(root, "it is gone, or can't be read: %w", looked)
	}
	if is := folderIDOf(info); is != *was.Folder {
		return otherFolder(root, "then it was %s, and now it is %s", was.Folder, is)
	}
	return nil
}

// CheckFollowed reports, as [ErrOtherFolder], that dir is not the folder that was imported before:
// another one lies there, or it can't be read. It is nil where nothing was imported from there, nor
// from below.
func CheckFollowed(ctx context.Context, d *db.DB, l Layout, dir string, o Options) error {
	t, none := openTree(d, l, dir, o)
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	return d.Read(ctx, "look for the folder", func(rx *db.Rx) error {
		scope, ok, err := rx.Scope(o.Scope)
		if err != nil || !ok {
			return err
		}
		var sources []struct {
			ID   int64  `db:"id"`
			Root []byte `db:"root"`
		}
		if err := rx.Select(&sources, sqlRoots, scope, l.Name()); err != nil {
			return err
		}
		for _, s := range sources {
			root := string(s.Root)
			if root == t.Root && none == nil {
				info, err := look(root)
				return checkFolder(rx, s.ID, root, info, err)
			}
		}
		for _, s := range sources {
			root := string(s.Root)
			if root != abs && !strings.HasPrefix(root, strings.TrimSuffix(abs, "/")+"/") {
				continue
			}
			info, err := look(root)
			if err := checkFolder(rx, s.ID, root, info, err); err != nil {
				return err
			}
		}
		return nil
	})
}

func otherFolder(root, format string, args ...any) error {
	return &db.Error{
		Op: "import", Entity: "folder", ID: Shown(root),
		Hint: "see that it is there and mounted; if another folder is meant to be followed from now on, say " +
			"so: --yes",
		Err: fmt.Errorf("%w: %w", ErrOtherFolder, fmt.Errorf(format, args...)),
	}
}
