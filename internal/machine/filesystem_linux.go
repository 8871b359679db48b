package machine

import "golang.org/x/sys/unix"

// networkFilesystems are the f_type numbers of statfs(2), from linux/magic.h.
var networkFilesystems = map[int64]string{
	0x6969:     "NFS",
	0x517B:     "SMB",
	0xFE534D42: "SMB",
	0xFF534D42: "SMB (cifs)",
	0x01021997: "9p",
	0x5346414F: "AFS",
	0x00C36400: "Ceph",
}

// StatfsType is a variable so that a test can simulate a file system that the machine doesn't
// have.
var StatfsType = func(path string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Type), nil //nolint:unconvert // an int32 on some architectures
}

// NetworkFilesystem names the network file system that path is on; "" when it is on another kind.
func NetworkFilesystem(path string) (string, error) {
	kind, err := StatfsType(path)
	return networkFilesystems[kind&0xFFFFFFFF], err
}
