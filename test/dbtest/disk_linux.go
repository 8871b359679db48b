package dbtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// OnDisks runs a test on small file systems of its own, one in memory and one of ext4. size is as
// truncate(1) has it. It needs the right to mount.
func OnDisks(t *testing.T, size string, test func(t *testing.T, dir string)) {
	t.Run("tmpfs", func(t *testing.T) {
		dir := t.TempDir()
		mounted(t, dir, "mount", "-t", "tmpfs", "-o", "size="+size, "none", dir)
		test(t, dir)
	})
	t.Run("ext4", func(t *testing.T) {
		dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
		command(t, "truncate", "-s", size, image)
		command(t, "mkfs.ext4", "-q", image)
		mounted(t, dir, "mount", "-o", "loop", image, dir)
		test(t, dir)
	})
}

func mounted(t *testing.T, dir string, words ...string) {
	t.Helper()
	command(t, words...)
	t.Cleanup(func() { command(t, "umount", dir) })
}

func command(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s (this test mounts file systems: run it as root)", words, err, out)
	}
}

// SmallDisk mounts a file system in memory until the test ends. options are mount's, as size=24m. It is an
// error if the test leaves a file open there.
func SmallDisk(t testing.TB, options string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	mountSmall(t, folder, options)
	t.Cleanup(func() {
		if err := unix.Unmount(folder, 0); err != nil {
			t.Errorf("%v; open are still %q", err, OpenBelow(t, folder))
			_ = unix.Unmount(folder, unix.MNT_DETACH)
		}
	})
	return folder
}

func mountSmall(t testing.TB, folder, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount a small disk: %v; run the tests as root, or under unshare -rm", err)
	}
}

// OpenBelow returns the files that this process has open whose paths begin with path.
func OpenBelow(t testing.TB, path string) (open []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, path) {
			open = append(open, at)
		}
	}
	return open
}

// FreeFor returns how many bytes the disk of the file at path has left, including the file's
// reserve for deletions.
func FreeFor(t testing.TB, path string) int64 {
	t.Helper()
	for {
		before, beforeErr := reserved(path)
		var stat unix.Statfs_t
		err := unix.Statfs(filepath.Dir(path), &stat)
		after, afterErr := reserved(path)
		if err := errors.Join(beforeErr, err, afterErr); err != nil {
			t.Error(err)
			return 0
		}
		if before == after { // else it was made, or given away, meanwhile
			return int64(stat.Bavail)*stat.Bsize + after
		}
	}
}

func reserved(path string) (int64, error) {
	info, err := os.Stat(path + "-reserve")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// LeastFreeFor watches FreeFor until the least of it is asked for.
func LeastFreeFor(t testing.TB, path string) (least func() int64) {
	t.Helper()
	enough, seen := make(chan struct{}), make(chan int64)
	go func() {
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		least := FreeFor(t, path)
		for {
			select {
			case <-look.C:
				least = min(least, FreeFor(t, path))
			case <-enough:
				seen <- least
				return
			case <-t.Context().Done():
				return
			}
		}
	}()
	return func() int64 { close(enough); return <-seen }
}
