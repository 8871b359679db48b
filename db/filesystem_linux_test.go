package db_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestOpenRefusesNetworkFileSystems(t *testing.T) {
	for kind, name := range map[int64]string{
		0x6969: "NFS", 0xFF534D42: "SMB", 0xFE534D42: "SMB",
		0x01021997: "9p",
	} {
		t.Run(fmt.Sprintf("%#x", kind), func(t *testing.T) {
			db.PretendFilesystem(t, kind)
			dir := t.TempDir()
			path := filepath.Join(dir, "it.db")
			_, err := db.Open(t.Context(), path, db.Options{})
			if !errors.Is(err, db.ErrUnsupported) || !strings.Contains(err.Error(), name) {
				t.Errorf("the error is %v", err)
			}
			if there, _ := dbtest.Exists(path); there {
				t.Error("the file was made")
			}
			dbtest.OpenAt(t, path, db.Options{AllowNetworkFS: true})
		})
	}
}
