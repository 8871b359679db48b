package db

import "golang.org/x/sys/unix"

var networkFilesystems = map[string]string{
	"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV", "9p": "9p",
}

func networkFilesystem(path string) (string, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return "", err
	}
	return networkFilesystems[unix.ByteSliceToString(stat.Fstypename[:])], nil
}
