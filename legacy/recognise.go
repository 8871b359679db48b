package legacy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A Found is a tree that Recognise saw.
type Found struct {
	Kind        Kind
	Dir         string // what the old program was given
	Description string // in a few words
}

// recogniseDepth is how far below a folder trees are looked for: a home folder holds ~/.car, and that one
// ~/.car/workflow-runs.
const recogniseDepth = 2

// Recognise looks for trees in dir and, so that a home folder can be given, in the folders below it, two levels deep;
// links are not followed there. Below a tree no other one of its kind is looked for. Folders below dir that can't be read
// are passed over.
func Recognise(dir string) ([]Found, error) {
	return recognise(dir, Kinds(), 0)
}

func recognise(dir string, kinds []Kind, depth int) (found []Found, err error) {
	var rest []Kind
	for _, k := range kinds {
		l, err := k.layout()
		if err != nil {
			return nil, err
		}
		description, ok, err := l.Recognise(dir)
		switch {
		case err != nil && depth > 0 && errors.Is(err, fs.ErrPermission):
		case err != nil:
			return nil, fmt.Errorf("look for %s in %s: %w", k, dir, err)
		case ok:
			found = append(found, Found{Kind: k, Dir: dir, Description: description})
		default:
			rest = append(rest, k)
		}
	}
	if depth == recogniseDepth || len(rest) == 0 {
		return found, nil
	}
	entries, err := os.ReadDir(dir)
	if depth > 0 && errors.Is(err, fs.ErrPermission) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below, err := recognise(filepath.Join(dir, e.Name()), rest, depth+1)
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	return found, nil
}
