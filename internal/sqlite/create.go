package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sys/unix"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
)

// errNotCreated: there is no file at the path, or an empty one.
var errNotCreated = errors.New("the file must be created first")

// create creates the file under a temporary name, and renames it once it has its schema and is
// synced. So a process that dies leaves no half of a file, and no other process sees one. It
// replaces an empty file under the exclusive hold, as every replacement does.
func (e *Engine) create(ctx context.Context) (err error) {
	dir := filepath.Dir(e.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	hold, err := lock.Share(ctx, e.path+lockSuffix, false, e.config.LockTimeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Close()) }()
	alone, err := hold.Alone(ctx, e.config.LockTimeout, e.created)
	if err != nil || !alone {
		return err
	}
	if created, err := e.created(); created || err != nil {
		return err // another process was faster
	}
	if err := checkWAL(e.path, nil); err != nil {
		return err
	}
	return withPart(ctx, dir, func(p *part) error {
		if err := e.fill(ctx, p.path); err != nil {
			return err
		}
		info, err := os.Lstat(e.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = p.give(e.path)
			if errors.Is(err, fs.ErrExist) {
				return nil // another program made it without our locks; the next open examines it
			}
			return err
		}
		if err != nil {
			return err
		}
		if err := emptied(ctx, e.path, e.config); err != nil {
			return err
		}
		if err := likeFile(p.path, info); err != nil {
			return err
		}
		return p.replace(e.path)
	})
}

// created reports whether a file with content is at the path.
func (e *Engine) created() (bool, error) {
	sharedFiles.Lock()
	defer sharedFiles.Unlock()
	info, err := os.Stat(e.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || sharedFiles.byKey[keyOf(info)] != nil {
		return true, err
	}
	file, err := os.Open(e.path)
	if err != nil {
		return true, nil //nolint:nilerr // found again when it is opened
	}
	defer file.Close() //nolint:errcheck // nothing was written
	_, err = checkHeader(file)
	return !errors.Is(err, errNotCreated), nil // what else is wrong with it is found when it is opened
}

// fill makes a database with the schema, in WAL mode, out of the empty file at path.
func (e *Engine) fill(ctx context.Context, path string) (err error) {
	m := &migration{ladder: e.config.Ladder, config: e.config, target: e.config.SchemaVersion}
	if err := m.runAt(ctx, path); err != nil {
		return err
	}
	e.moved = m.Move
	return syncFile(path)
}

// likeFile gives the file at path, which must not be a link, the mode and the owner of the file
// that it is to replace.
func likeFile(path string, other fs.FileInfo) (err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(file, err) }()
	if err := file.Chmod(other.Mode().Perm()); err != nil {
		return err
	}
	own, err := file.Stat()
	if err != nil {
		return err
	}
	was, is := other.Sys().(*syscall.Stat_t), own.Sys().(*syscall.Stat_t)
	if was.Uid == is.Uid && was.Gid == is.Gid {
		return nil
	}
	if err := file.Chown(int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("give the new file to the owner of the old one: %w", err)
	}
	return nil
}

// The header of a rollback journal: sqlite.org/fileformat.html, section 3.
const (
	journalMagic    = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
	journalPagesWas = 16 // pages of the database when the transaction began
	journalHeader   = 28
)

// tornCreation reports whether the first transaction of the file at path was cut short: its journal
// records that the file was empty before, so SQLite empties the file when it opens it.
func tornCreation(path string) bool {
	file, err := os.Open(path + "-journal")
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // nothing was written
	header := make([]byte, journalHeader)
	if _, err := io.ReadFull(file, header); err != nil {
		return false
	}
	return bytes.HasPrefix(header, []byte(journalMagic)) &&
		binary.BigEndian.Uint32(header[journalPagesWas:]) == 0
}

// emptied has SQLite undo a first transaction that was cut short. SQLite can tell it from one in
// progress.
func emptied(ctx context.Context, path string, o Config) error {
	there, err := exists(path + "-journal")
	if err != nil || !there {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.LockTimeout)
	defer cancel()
	var pages int
	err = withConn(ctx, path, func(h handle) error {
		return h.conn.GetContext(ctx, &pages, "PRAGMA page_count")
	})
	if err != nil {
		return fmt.Errorf("undo an interrupted creation of the file: %w", err)
	}
	if pages > 0 {
		return fmt.Errorf("%w: another program is making a database of the file", engine.ErrBusy)
	}
	return nil
}

// writeHeader writes the header of an empty file. auto_vacuum takes effect only before the first
// page, and the application_id must be there with that page: another process may read it at any
// moment. So both are set in one transaction, and a deferred one, since an immediate one would make
// the page first.
func writeHeader(ctx context.Context, conn *sqlx.Conn) error {
	var pages int
	if err := conn.GetContext(ctx, &pages, "PRAGMA page_count"); err != nil || pages > 0 {
		return err
	}
	script := fmt.Sprintf("BEGIN; PRAGMA auto_vacuum=2; PRAGMA application_id=%d; COMMIT", ApplicationID)
	if _, err := conn.ExecContext(ctx, script); err != nil {
		return fmt.Errorf("write the header: %w", err)
	}
	var mode int
	if err := conn.GetContext(ctx, &mode, "PRAGMA auto_vacuum"); err != nil || mode != 2 {
		return errors.Join(err, fmt.Errorf("auto_vacuum is %d after setting it to 2", mode))
	}
	return nil
}
