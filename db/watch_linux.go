package db

import (
	"os"

	"golang.org/x/sys/unix"
)

// fileWrites tells of writes to a file by any process of this machine: inotify(7). It has no descriptor of the file itself,
// whose closing would drop SQLite's locks.
type fileWrites struct {
	events  *os.File
	seen    chan struct{} // gets a value after a write; writes that come while one waits share it
	stopped chan struct{}
}

func fileWritten(path string) (*fileWrites, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		return nil, closeAfter(events, err)
	}
	f := &fileWrites{events: events, seen: make(chan struct{}, 1), stopped: make(chan struct{})}
	go f.run()
	return f, nil
}

func (f *fileWrites) run() {
	defer close(f.stopped)
	buf := make([]byte, 4096) // what is in it doesn't matter: there is one file and one sort of event
	for {
		if _, err := f.events.Read(buf); err != nil {
			return
		}
		select {
		case f.seen <- struct{}{}:
		default:
		}
	}
}

func (f *fileWrites) close() error {
	err := f.events.Close()
	<-f.stopped
	return err
}
