package machine

import (
	"errors"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A Place is where a file lies. It is notified of every change that could have the path lead
// elsewhere, or give the file another name, and of all names that are removed from its folder or
// replaced there: inotify(7) for the file, its folder and the folders above, and the table of
// mounts (proc_pid_mountinfo(5)). The kernel notifies before the call that made the change
// returns. So one look that finds nothing proves that no change had been made when it began, and
// costs a tenth of asking for each of the files.
type Place struct {
	ready int   // an epoll(7)
	heard []int // the descriptors it waits for
	got   [1]unix.EpollEvent
}

// changesAreTold are the file systems, from linux/magic.h, that only this kernel changes.
var changesAreTold = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.BCACHEFS_SUPER_MAGIC, unix.TMPFS_MAGIC,
	unix.OVERLAYFS_SUPER_MAGIC,
	0x2FC12FC1, // ZFS, which is not in linux/magic.h
}

func watchPlace(path string) (_ *Place, err error) {
	kind, err := StatfsType(path)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(changesAreTold, kind&0xFFFFFFFF) {
		return nil, errors.ErrUnsupported
	}
	ready, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &Place{ready: ready}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err := p.hear(mounts, unix.EPOLLPRI, err); err != nil {
		return nil, err
	}
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err := p.hear(events, unix.EPOLLIN, err); err != nil {
		return nil, err
	}
	return p, watchWay(events, path)
}

// hear adds a descriptor that was just opened.
func (p *Place) hear(fd int, events uint32, err error) error {
	if err != nil {
		return err
	}
	p.heard = append(p.heard, fd)
	return unix.EpollCtl(p.ready, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events})
}

// watchWay watches from the root to the file, so that no folder can change unseen while its
// content is still to be watched.
func watchWay(fd int, path string) error {
	way := []string{filepath.Dir(path)}
	for at := way[0]; at != filepath.Dir(at); at = filepath.Dir(at) {
		way = append(way, filepath.Dir(at))
	}
	for i, at := range slices.Backward(way) {
		events := uint32(unix.IN_ONLYDIR | unix.IN_MOVE_SELF)
		if i == 0 {
			events |= unix.IN_DELETE_SELF | unix.IN_DELETE | unix.IN_MOVE
		}
		if _, err := unix.InotifyAddWatch(fd, at, unix.IN_DONT_FOLLOW|unix.IN_MASK_ADD|events); err != nil {
			return err
		}
	}
	// IN_ATTRIB comes for another link, wherever that is made.
	_, err := unix.InotifyAddWatch(fd, path,
		unix.IN_DONT_FOLLOW|unix.IN_ATTRIB|unix.IN_MOVE_SELF|unix.IN_DELETE_SELF)
	return err
}

// Changed reports whether anything may have changed since the watch began. It reports a change
// once, and the watch is over then.
func (p *Place) Changed() bool {
	n, err := unix.EpollWait(p.ready, p.got[:], 0)
	return n != 0 || err != nil
}

// Close ends the watch.
func (p *Place) Close() error {
	err := unix.Close(p.ready)
	for _, fd := range p.heard {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}
