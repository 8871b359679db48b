package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A shape describes which arguments of a system call name the file that it touches.
type shape struct {
	name  string
	class class
	fd    int // index of the argument with the descriptor, or -1
	// index of the argument with the path, or -1; if at is set, a folder's descriptor precedes it
	path int
	at   bool
	to   int // index of the argument with the second path, or 0
}

// shapes are the calls that the process is stopped at. Calls that are not listed touch no file,
// or are used by neither Go's library nor the driver's.
var shapes = map[uint64]shape{
	unix.SYS_READ:            {"read", reads, 0, -1, false, 0},
	unix.SYS_PREAD64:         {"pread64", reads, 0, -1, false, 0},
	unix.SYS_GETDENTS64:      {"getdents64", looks, 0, -1, false, 0},
	unix.SYS_WRITE:           {"write", writes, 0, -1, false, 0},
	unix.SYS_PWRITE64:        {"pwrite64", writes, 0, -1, false, 0},
	unix.SYS_FSYNC:           {"fsync", syncs, 0, -1, false, 0},
	unix.SYS_FDATASYNC:       {"fdatasync", syncs, 0, -1, false, 0},
	unix.SYS_FTRUNCATE:       {"ftruncate", resizes, 0, -1, false, 0},
	unix.SYS_FALLOCATE:       {"fallocate", resizes, 0, -1, false, 0},
	unix.SYS_FCNTL:           {"fcntl", locks, 0, -1, false, 0},
	unix.SYS_FLOCK:           {"flock", locks, 0, -1, false, 0},
	unix.SYS_MMAP:            {"mmap", mmaps, 4, -1, false, 0},
	unix.SYS_FSTAT:           {"fstat", looks, 0, -1, false, 0},
	unix.SYS_CLOSE:           {"close", closes, 0, -1, false, 0},
	unix.SYS_FCHMOD:          {"fchmod", names, 0, -1, false, 0},
	unix.SYS_STAT:            {"stat", looks, -1, 0, false, 0},
	unix.SYS_LSTAT:           {"lstat", looks, -1, 0, false, 0},
	unix.SYS_ACCESS:          {"access", looks, -1, 0, false, 0},
	unix.SYS_FACCESSAT:       {"faccessat", looks, -1, 1, true, 0},
	unix.SYS_FACCESSAT2:      {"faccessat2", looks, -1, 1, true, 0},
	unix.SYS_NEWFSTATAT:      {"newfstatat", looks, -1, 1, true, 0},
	unix.SYS_STATX:           {"statx", looks, -1, 1, true, 0},
	unix.SYS_STATFS:          {"statfs", looks, -1, 0, false, 0},
	unix.SYS_READLINKAT:      {"readlinkat", looks, -1, 1, true, 0},
	unix.SYS_READLINK:        {"readlink", looks, -1, 0, false, 0},
	unix.SYS_OPEN:            {"open", opens, -1, 0, false, 0},
	unix.SYS_OPENAT:          {"openat", opens, -1, 1, true, 0},
	unix.SYS_TRUNCATE:        {"truncate", resizes, -1, 0, false, 0},
	unix.SYS_CHMOD:           {"chmod", names, -1, 0, false, 0},
	unix.SYS_FCHMODAT:        {"fchmodat", names, -1, 1, true, 0},
	unix.SYS_MKDIR:           {"mkdir", names, -1, 0, false, 0},
	unix.SYS_MKDIRAT:         {"mkdirat", names, -1, 1, true, 0},
	unix.SYS_UNLINK:          {"unlink", names, -1, 0, false, 0},
	unix.SYS_RMDIR:           {"rmdir", names, -1, 0, false, 0},
	unix.SYS_UNLINKAT:        {"unlinkat", names, -1, 1, true, 0},
	unix.SYS_LINK:            {"link", names, -1, 0, false, 1},
	unix.SYS_LINKAT:          {"linkat", names, -1, 1, true, 3},
	unix.SYS_RENAME:          {"rename", names, -1, 0, false, 1},
	unix.SYS_RENAMEAT:        {"renameat", names, -1, 1, true, 3},
	unix.SYS_RENAMEAT2:       {"renameat2", names, -1, 1, true, 3},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", names, 2, -1, false, 0},
}

// wait4 finds the threads of this tracer alone: several trace side by side, each on a thread of its own.
const ours = unix.WALL | unix.WNOTHREAD

// errHung is the end of a process that had to be killed because it did not come to its own.
var errHung = errors.New("the process hung and was killed")

// A tracer runs one process and stops it at each call that touches the folder.
type tracer struct {
	folder string
	pid    int
	known  map[int]bool  // threads that have stopped for the first time
	inside map[int]*call // threads whose call is to be seen with its result
	// enter is called before a call. It returns the call's fault, and whether leave is to be
	// called after it.
	enter func(*call) (fault, bool)
	leave func(*call)
	// line is called for each line that the process writes to its descriptor 3.
	line func(string)
}

// linesFd is where the traced process reports its progress. The tracer reads the lines from the
// process's memory, so that they have their place among the other calls; the other end need not
// be read.
const linesFd = 3

// run runs the program to its end, or for at most limit, and returns what it wrote to stderr. A
// process that was killed by the tracer's own fault is no error; any other end but exit code 0 is
// one.
func (t *tracer) run(limit time.Duration, args ...string) (stderr string, err error) {
	runtime.LockOSThread() // ptrace(2): requests must come from the tracer's thread
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer null.Close() //nolint:errcheck // nothing was written
	notes, err := os.CreateTemp("", "torture-*")
	if err != nil {
		return "", err
	}
	defer notes.Close() //nolint:errcheck // a file that is already removed
	if err := os.Remove(notes.Name()); err != nil {
		return "", err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = notes, notes, []*os.File{null}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start a traced process (ptrace must be allowed here): %w", err)
	}
	t.pid, t.known, t.inside = cmd.Process.Pid, map[int]bool{}, map[int]*call{}
	var hung atomic.Bool
	// Go prints the stacks
	asked := time.AfterFunc(limit, func() { hung.Store(true); _ = unix.Kill(t.pid, unix.SIGQUIT) })
	defer asked.Stop()
	forced := time.AfterFunc(limit+3*time.Second, func() { _ = unix.Kill(t.pid, unix.SIGKILL) })
	defer forced.Stop()
	status, err := t.follow()
	text := make([]byte, 64<<10)
	n, _ := notes.ReadAt(text, 0)
	stderr = string(text[:n])
	switch {
	case err != nil:
		_ = unix.Kill(t.pid, unix.SIGKILL)
		return stderr, err
	case hung.Load():
		return stderr, errHung
	case status.Signaled() && status.Signal() == unix.SIGKILL:
		return stderr, nil
	case status.Exited() && status.ExitStatus() == 0:
		return stderr, nil
	case status.Signaled():
		return stderr, fmt.Errorf("the process died of %v", status.Signal())
	}
	return stderr, fmt.Errorf("the process exited with %d", status.ExitStatus())
}

// follow lets the process run from stop to stop until it is gone.
func (t *tracer) follow() (end unix.WaitStatus, err error) {
	var status unix.WaitStatus
	if _, err := t.wait(t.pid, &status); err != nil {
		return status, err
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESYSGOOD |
		unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(t.pid, options); err != nil {
		return status, fmt.Errorf("trace a process: %w", err)
	}
	t.known[t.pid] = true
	if err := unix.PtraceCont(t.pid, 0); err != nil {
		return status, err
	}
	for {
		tid, err := t.wait(-1, &status)
		if err != nil {
			return status, err
		}
		switch {
		case status.Exited() || status.Signaled():
			if tid == t.pid {
				return status, nil
			}
			delete(t.inside, tid)
			continue
		case !status.Stopped():
			continue
		}
		// A thread that is being killed answers ESRCH to everything; wait then returns its end.
		if err := t.stopped(tid, status); err != nil && !errors.Is(err, unix.ESRCH) {
			return status, err
		}
	}
}

func (t *tracer) wait(pid int, status *unix.WaitStatus) (int, error) {
	for {
		tid, err := unix.Wait4(pid, status, ours, nil)
		if !errors.Is(err, unix.EINTR) {
			return tid, err
		}
	}
}

// stopped deals with one stop of one thread and lets it go on.
func (t *tracer) stopped(tid int, status unix.WaitStatus) error {
	signal := status.StopSignal()
	switch {
	case signal == unix.SIGTRAP|0x80:
		return t.left(tid)
	case signal == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		return t.entered(tid)
	case signal == unix.SIGTRAP:
		return unix.PtraceCont(tid, 0) // a thread was made
	case signal == unix.SIGSTOP && !t.known[tid]:
		t.known[tid] = true // how a new thread begins
		return unix.PtraceCont(tid, 0)
	}
	return unix.PtraceCont(tid, int(signal))
}

// entered deals with a call that a thread is about to make.
func (t *tracer) entered(tid int) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	c, err := t.read(tid, &regs)
	if err != nil || c == nil {
		return errors.Join(err, unix.PtraceCont(tid, 0))
	}
	f, watch := t.enter(c)
	switch {
	case f == kill:
		return unix.Kill(t.pid, unix.SIGKILL)
	case f == short:
		regs.Rdx /= 2
		c.size, c.data = c.size/2, c.data[:min(len(c.data), int(c.size/2))]
		if err := unix.PtraceSetRegs(tid, &regs); err != nil {
			return err
		}
	case c.class == closes && f.errno != 0:
		c.fails = f.errno
	case f == lost && c.class != closes || f.errno != 0:
		// An impossible number makes the kernel skip the call; rax holds its result: seccomp(2).
		regs.Orig_rax, regs.Rax = ^uint64(0), uint64(-int64(f.errno))
		if f == lost && c.class == writes {
			regs.Rax = uint64(c.size)
		}
		c.result = int64(regs.Rax)
		if err := unix.PtraceSetRegs(tid, &regs); err != nil {
			return err
		}
		if watch {
			t.leave(c)
		}
		return unix.PtraceCont(tid, 0)
	}
	if !watch && c.fails == 0 {
		return unix.PtraceCont(tid, 0)
	}
	c.watched, t.inside[tid] = watch, c
	return unix.PtraceSyscall(tid, 0)
}

// left deals with a call that a thread has made.
func (t *tracer) left(tid int) (err error) {
	c := t.inside[tid]
	if c == nil {
		return unix.PtraceCont(tid, 0)
	}
	delete(t.inside, tid)
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	if c.fails != 0 {
		regs.Rax = uint64(-int64(c.fails))
		if err := unix.PtraceSetRegs(tid, &regs); err != nil {
			return err
		}
	}
	c.result = int64(regs.Rax)
	if c.fresh && c.result >= 0 {
		if c.file, err = inode(fmt.Sprintf("/proc/%d/fd/%d", t.pid, c.result)); err != nil {
			return err
		}
	}
	if c.watched {
		t.leave(c)
	}
	return unix.PtraceCont(tid, 0)
}

// read makes a call out of the registers. nil is a call that doesn't touch the folder.
func (t *tracer) read(tid int, regs *unix.PtraceRegs) (*call, error) {
	s := shapes[regs.Orig_rax]
	args := []uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9}
	c := &call{name: s.name, class: s.class, arg: args, tid: tid}
	if s.fd >= 0 {
		fd := int32(args[s.fd])
		if fd == linesFd && regs.Orig_rax == unix.SYS_WRITE {
			text, err := t.memory(args[1], args[2])
			for line := range strings.Lines(string(text)) {
				t.line(strings.TrimSpace(line))
			}
			return nil, err
		}
		if fd < 0 {
			return nil, nil
		}
		at := fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd)
		link, err := os.Readlink(at)
		if err != nil || !t.within(link) {
			return nil, nil //nolint:nilerr // a descriptor that isn't open is the process's affair
		}
		c.path = link
		if c.file, err = inode(at); err != nil {
			return nil, err
		}
		return c, t.describe(c, regs)
	}
	var dir int32 = unix.AT_FDCWD
	if s.at {
		dir = int32(args[s.path-1])
	}
	var err error
	if c.path, err = t.path(dir, args[s.path]); err != nil {
		return nil, err
	}
	if s.to > 0 {
		if s.at {
			dir = int32(args[s.to-1])
		}
		if c.to, err = t.path(dir, args[s.to]); err != nil {
			return nil, err
		}
	}
	if !t.within(c.path) && !t.within(c.to) {
		return nil, nil
	}
	return c, t.describe(c, regs)
}

// describe fills in the further details of some calls.
func (t *tracer) describe(c *call, regs *unix.PtraceRegs) (err error) {
	c.offset = -1
	switch regs.Orig_rax {
	case unix.SYS_OPEN, unix.SYS_OPENAT:
		flags := c.arg[1]
		if regs.Orig_rax == unix.SYS_OPENAT {
			flags = c.arg[2]
		}
		c.file, err = inode(c.path)
		switch {
		case flags&unix.O_TMPFILE == unix.O_TMPFILE, flags&unix.O_CREAT != 0 && errors.Is(err, os.ErrNotExist):
			c.class, c.fresh = names, true
		case err == nil && flags&unix.O_TRUNC != 0:
			c.class = resizes
		}
		return nil
	case unix.SYS_LINK, unix.SYS_LINKAT, unix.SYS_TRUNCATE:
		// the call itself will fail
		c.file, _ = inode(strings.Replace(c.path, "/proc/self/", fmt.Sprintf("/proc/%d/", t.pid), 1))
		c.size = int64(c.arg[1])
	case unix.SYS_FCNTL:
		switch c.arg[1] {
		case unix.F_SETLK, unix.F_SETLKW, unix.F_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW, unix.F_OFD_GETLK:
		default:
			c.class = looks // F_GETFL and the like
		}
	case unix.SYS_FTRUNCATE:
		c.size = int64(c.arg[1])
	case unix.SYS_FALLOCATE:
		c.size = int64(c.arg[2] + c.arg[3])
	case unix.SYS_READ, unix.SYS_PREAD64:
		c.size = int64(c.arg[2])
	case unix.SYS_WRITE:
		c.size = int64(c.arg[2])
		if c.offset, err = t.position(int32(c.arg[0])); err != nil {
			return err
		}
	case unix.SYS_PWRITE64:
		c.size, c.offset = int64(c.arg[2]), int64(c.arg[3])
	}
	if c.class == writes {
		c.data, err = t.memory(c.arg[1], uint64(c.size))
	}
	return err
}

func (t *tracer) within(path string) bool {
	return path == t.folder || strings.HasPrefix(path, t.folder+"/")
}

func (t *tracer) path(dir int32, address uint64) (string, error) {
	text, err := t.text(address)
	if err != nil || filepath.IsAbs(text) {
		return filepath.Clean(text), err
	}
	base := fmt.Sprintf("/proc/%d/cwd", t.pid)
	if dir != unix.AT_FDCWD {
		base = fmt.Sprintf("/proc/%d/fd/%d", t.pid, dir)
	}
	if base, err = os.Readlink(base); err != nil {
		return "", nil //nolint:nilerr // the call will fail by itself
	}
	return filepath.Join(base, text), nil
}

// memory reads the process's memory.
func (t *tracer) memory(address, size uint64) ([]byte, error) {
	data := make([]byte, size)
	if size == 0 {
		return data, nil
	}
	local := []unix.Iovec{{Base: &data[0]}}
	local[0].SetLen(len(data))
	n, err := unix.ProcessVMReadv(t.pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(data)}}, 0)
	if err != nil {
		return nil, fmt.Errorf("read the memory of the traced process: %w", err)
	}
	return data[:n], nil
}

// text reads a text that ends in NUL. It reads up to the end of a page each time: the next one may
// not be there.
func (t *tracer) text(address uint64) (string, error) {
	const page = 4096
	var text []byte
	for len(text) < page {
		part, err := t.memory(address, page-address%page)
		if err != nil {
			return "", err
		}
		before, _, ended := bytes.Cut(part, []byte{0})
		if text = append(text, before...); ended {
			return string(text), nil
		}
		address += uint64(len(part))
	}
	return string(text), nil
}

// position is where a descriptor's next write goes.
func (t *tracer) position(fd int32) (at int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.pid, fd))
	if err == nil {
		_, err = fmt.Sscanf(string(text), "pos: %d", &at)
	}
	return at, err
}

func inode(path string) (uint64, error) {
	var stat unix.Stat_t
	err := unix.Stat(path, &stat)
	return stat.Ino, err
}

// askToBeStopped makes every thread of this process stop for its tracer at the calls of shapes, and
// at no others: stopping at all of them takes ten times as long. Without a tracer these calls fail
// from then on.
func askToBeStopped() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	answer := func(with uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
	}
	filter := []unix.SockFilter{load(0)} // struct seccomp_data: the number is its first member
	for number := range shapes {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(number), Jf: 1},
			answer(unix.SECCOMP_RET_TRACE))
	}
	filter = append(filter, answer(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("ask for stops: %w", err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("ask for stops (seccomp must be allowed here): %w", errno)
	}
	return nil
}
