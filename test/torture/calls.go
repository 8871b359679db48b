package main

import (
	"fmt"
	"syscall"
)

// A class is the effect of a system call on a file, which determines how it can fail and how a
// power cut affects it.
type class int

const (
	reads   class = iota // content
	looks                // at names, sizes, modes
	opens                // an existing file
	locks                // fcntl, flock
	mmaps                // the -shm file into memory
	writes               // content
	resizes              // truncates or allocates
	syncs                // fsync and fdatasync
	names                // makes, links, renames or removes a name
	closes
)

// changes reports whether the call changes the folder, or makes a change durable. A process that
// is killed leaves the state after the last of these, wherever it was killed after it; the kernel
// releases its locks.
func (c class) changes() bool { return c >= writes && c < closes }

// faults are the errors that a call of this class is made to fail with. Short is none of the
// system's: it has half of a write done.
func (c class) faults() []fault {
	switch c {
	case reads:
		return []fault{{"EIO", syscall.EIO}, {"EINTR", syscall.EINTR}}
	case looks:
		return []fault{{"EIO", syscall.EIO}}
	case opens:
		return []fault{{"EIO", syscall.EIO}, {"EMFILE", syscall.EMFILE}, {"EINTR", syscall.EINTR}}
	case locks:
		return []fault{{"EIO", syscall.EIO}, {"ENOLCK", syscall.ENOLCK}, {"EINTR", syscall.EINTR}}
	case mmaps:
		return []fault{{"ENOMEM", syscall.ENOMEM}}
	case writes:
		return []fault{{"EIO", syscall.EIO}, {"ENOSPC", syscall.ENOSPC}, {"EINTR", syscall.EINTR}, short}
	case resizes, names:
		return []fault{{"EIO", syscall.EIO}, {"ENOSPC", syscall.ENOSPC}}
	case syncs:
		return []fault{{"EIO", syscall.EIO}, {"ENOSPC", syscall.ENOSPC}}
	case closes:
		return []fault{{"EIO", syscall.EIO}}
	}
	return nil
}

// A fault is what happens to a call instead of its effect.
type fault struct {
	name  string
	errno syscall.Errno // the call's error
}

var (
	none  = fault{}
	kill  = fault{name: "kill"}  // the process dies before the call
	short = fault{name: "short"} // half of the bytes are written
	// the call does nothing and reports success: no disk is like this, but a judge must notice
	lost = fault{name: "lost"}
)

var errnos = map[string]syscall.Errno{
	"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EINTR": syscall.EINTR, "EMFILE": syscall.EMFILE,
	"ENOLCK": syscall.ENOLCK,
	"ENOMEM": syscall.ENOMEM,
}

func faultNamed(name string) (fault, error) {
	for _, f := range []fault{kill, short, lost} {
		if f.name == name {
			return f, nil
		}
	}
	if errno, ok := errnos[name]; ok {
		return fault{name, errno}, nil
	}
	return none, fmt.Errorf("no fault is called %q", name)
}

func (f fault) interrupts() bool { return f.errno == syscall.EINTR }

// A call is one system call of the traced process that touches the folder under test. It is seen
// before it is done, and then, where someone asked, once more with its result.
type call struct {
	name    string
	class   class
	path    string        // of the file, or of the folder
	to      string        // the new name of a link or rename
	fresh   bool          // nothing lay at path before: an open makes it
	file    uint64        // inode of an open file
	offset  int64         // of a write; -1 for one at the file's position
	size    int64         // bytes to be read or written, or the new size of the file
	data    []byte        // of a write, when it is asked for
	result  int64         // after the call: its result, or -errno
	fails   syscall.Errno // the error of a close: Linux closes the file all the same, close(2)
	watched bool          // leave is called for it
	begun   int           // for the handler's use: where in its own order the call began
	arg     []uint64      // as the kernel got them
	tid     int
}
