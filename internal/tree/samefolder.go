package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"selvedge/db"
)

// ErrOtherFolder means that a folder is not the one that was imported before under its name. It matches
// db.ErrConflict.
var ErrOtherFolder = fmt.Errorf("%w: it is not the folder that was imported before", db.ErrConflict)

// A folderID distinguishes a folder from another one at its path: on another disk, or the folder
// where a disk was mounted.
type folderID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

func (id folderID) String() string { return fmt.Sprintf("inode %d of device %d", id.Inode, id.Device) }

func folderIDOf(info os.FileInfo) folderID {
	stat := info.Sys().(*syscall.Stat_t)
	//nolint:unconvert // a device is an int32 on other systems
	return folderID{Device: uint64(stat.Dev), Inode: stat.Ino}
}

// journalled is the form in which the journal stores the files of an import. Older programs left
// out the folder.
type journalled struct {
	Files
	Folder *folderID `json:"folder,omitempty"`
}

const (
	// An import that was killed, or of an older program, may not name the folder.
	sqlLastFolder = `SELECT files FROM imports WHERE source = ? AND files LIKE '%"folder":{%' ORDER BY id DESC
		LIMIT 1`
	sqlRoots = `SELECT id, root FROM import_sources WHERE scope = ? AND kind = ?`
)

// look describes the folder, and checks that it can be listed.
func look(root string) (os.FileInfo, error) {
	info, err := os.Stat(root)
	if err != nil {
		return info, err
	}
	f, err := os.Open(root)
	if err != nil {
		return info, err
	}
	if _, err = f.Readdirnames(1); errors.Is(err, io.EOF) {
		err = nil
	}
	return info, errors.Join(err, f.Close())
}

// checkFolder returns ErrOtherFolder if what look returned is not the folder that was imported
// before.
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

// CheckFollowed returns [ErrOtherFolder] if dir is not the folder that was imported before: it is
// another one, or it can't be read. It returns nil if nothing was imported from there or below.
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
		scope, ok, err := rx.Store().Scope(o.Scope)
		if err != nil || !ok {
			return err
		}
		type source struct {
			ID   int64  `db:"id"`
			Root []byte `db:"root"`
		}
		var sources []source
		if err := rx.Select(&sources, sqlRoots, scope, l.Name()); err != nil {
			return err
		}
		same := slices.IndexFunc(sources, func(s source) bool { return none == nil && string(s.Root) == t.Root })
		if same >= 0 {
			sources = sources[same : same+1]
		}
		for _, s := range sources {
			root := string(s.Root)
			if same < 0 && root != abs && !strings.HasPrefix(root, strings.TrimSuffix(abs, "/")+"/") {
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
