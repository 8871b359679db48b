package machine

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Writes reports writes to a file by any process of this machine: inotify(7). It has no
// descriptor of the file itself, since closing one would drop SQLite's locks.
type Writes struct {
	events  *os.File
	Seen    chan struct{} // gets a value after a write; writes that come while one waits share it
	stopped chan struct{}
}

// readEvery is the least time between two reads of reports: each would wake a thread.
const readEvery = time.Millisecond

func watchWrites(path string) (*Writes, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY); err != nil {
		return nil, errors.Join(err, events.Close())
	}
	f := &Writes{events: events, Seen: make(chan struct{}, 1), stopped: make(chan struct{})}
	go f.run()
	return f, nil
}

func (f *Writes) run() {
	defer close(f.stopped)
	buf := make([]byte, 4096) // its content doesn't matter: there is one file and one sort of event
	for {
		if _, err := f.events.Read(buf); err != nil {
			return
		}
		select {
		case f.Seen <- struct{}{}:
		default:
		}
		<-time.After(readEvery) // the system joins the reports that come meanwhile
	}
}

// Close ends the watch.
func (f *Writes) Close() error {
	err := f.events.Close()
	<-f.stopped
	return err
}
