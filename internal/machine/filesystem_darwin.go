package machine

import "golang.org/x/sys/unix"

var networkFilesystems = map[string]string{
	"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV", "9p": "9p",
}

// NetworkFilesystem names the network file system that path is on; "" when it is on another kind.
func NetworkFilesystem(path string) (string, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return "", err
	}
	return networkFilesystems[unix.ByteSliceToString(stat.Fstypename[:])], nil
}
