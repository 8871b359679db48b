package machine

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Allocate makes the disk hold so many bytes for file.
func Allocate(file *os.File, bytes int64) error { return fill(file, bytes) }

// MountRoot: macOS mounts no single files.
func MountRoot(string) bool { return false }

// WriteOut has no counterpart on macOS.
func WriteOut(int, int64, int64) {}

func renameNew(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }

func exchange(a, b string) error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) }

func lacksRename(err error) bool { return errors.Is(err, unix.ENOTSUP) }

var networkFilesystems = map[string]string{
	"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV", "9p": "9p",
}

// NetworkFilesystem names the network file system that path is on; "" when it is on another kind.
func NetworkFilesystem(path string) (string, error) {
	var stat unix.Statfs_t
	err := unix.Statfs(path, &stat)
	return networkFilesystems[unix.ByteSliceToString(stat.Fstypename[:])], err
}
