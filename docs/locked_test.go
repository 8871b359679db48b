package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// choosing is a call that chooses between row locks and a serialisable transaction.
var choosing = regexp.MustCompile(`\b(db|d|DB\(\))\.(Write|WriteLocked|WriteEnd|Reclaim)[(,)]`)

// A store says by stores.On what kind of thing it writes. Package txn has no other calls that lock.
func TestLint_StoresWriteByKind(t *testing.T) {
	for _, room := range append([]string{"."}, storeRooms...) {
		files, err := filepath.Glob(filepath.Join("..", room, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(room, files, err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if call := choosing.Find(text); call != nil && !strings.HasSuffix(path, "_test.go") {
				t.Errorf("%s: %s: use stores.On", path, call)
			}
		}
	}
}
