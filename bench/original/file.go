package original

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// readToString reads a file as Rust's read_to_string does: it asks for the size, and reads once
// more at the end to find that there is no more.
func readToString(path string) ([]byte, error) { return readInto(nil, path) }

// readInto is readToString behind what content holds already.
func readInto(content []byte, path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	content, err = readAll(content, fd)
	return content, errors.Join(err, unix.Close(fd))
}

func readAll(content []byte, fd int) ([]byte, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	content = slices.Grow(content, int(stat.Size)+1)
	for {
		n, err := unix.Read(fd, content[len(content):cap(content)])
		if err != nil || n == 0 {
			return content, err
		}
		content = content[:len(content)+n]
		if len(content) == cap(content) {
			content = append(content, 0)[:len(content)]
		}
	}
}

func writeFile(path string, content []byte, sync Sync) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	err = writeAll(fd, content)
	if err == nil && bool(sync) {
		err = unix.Fsync(fd)
	}
	return errors.Join(err, unix.Close(fd))
}

func writeAll(fd int, content []byte) error {
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}
