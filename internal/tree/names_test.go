package tree

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNamesComeInByteOrderWhateverTheWindow(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 100 {
		name := string([]byte{byte('0' + i%61), byte('!' + i%13), byte('a' + i/10)})
		if slices.Contains(want, name) {
			continue
		}
		want = append(want, name)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	for _, window := range []int{1, 2, 7, 50, len(want), 1000} {
		var got []string
		err := Folder{path: dir}.namesIn(".", window, func(name string) error {
			got = append(got, name)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("window %d: %v, %v", window, got, err)
		}
	}
}
