package legacy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestRootExport_FullDiskLeavesNothing(t *testing.T) {
	d, disk := manyRuns(t), dbtest.SmallDisk(t, "size=500k")
	for range 2 {
		if _, err := Export(context.Background(), d, Runs, filepath.Join(disk, "out"), Options{}); !errors.Is(err,
			unix.ENOSPC) {
			t.Errorf("the error is %v", err)
		}
		if left := namesIn(t, filepath.Join(disk, "out")); len(left) > 0 {
			t.Errorf("left is %q", left)
		}
	}
}

func TestAnExportWhoseDiskFailsLeavesNothing(t *testing.T) {
	d := manyRuns(t)
	path := d.Path()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, dir := range []string{out, filepath.Join(out, "new", "folder")} {
		p := dbtest.Start(t, "export on a failing disk", path, dir)
		p.Expect("input/output error, left is []")
		p.Wait()
	}
	if below := namesIn(t, filepath.Join(out, "new")); len(below) > 0 {
		t.Errorf("it made %q in a folder that is not known to be on the disk", below)
	}
}

func init() { programs["export on a failing disk"] = failingExport }

// failingExport exports the runs of the file args[0] into args[1] in a process where no fsync(2) succeeds.
func failingExport(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	_, err = Export(ctx, d, Runs, args[1], Options{})
	names, listing := os.ReadDir(args[1])
	if errors.Is(err, unix.EIO) {
		err = unix.EIO
	}
	fmt.Printf("%v, left is %v\n", err, names)
	if errors.Is(listing, fs.ErrNotExist) {
		listing = nil
	}
	return errors.Join(listing, d.Close())
}
