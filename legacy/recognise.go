package legacy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"selvedge/db"
	"selvedge/internal/tree"
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

// Recognise looks for trees in dir and, so that a home folder can be given, in the folders below
// it, two levels deep; links are not followed there. A tree is one in which a record can be read.
// Below a tree no other one of its kind is looked for. What can't be read below dir is passed over.
func Recognise(dir string, o Options) ([]Found, error) {
	return recognise(dir, o, Kinds(), 0)
}

func recognise(dir string, o Options, kinds []Kind, depth int) (found []Found, err error) {
	folder, err := tree.OpenFolder(dir, o)
	if err != nil {
		if depth > 0 {
			return nil, nil //nolint:nilerr // it is gone or can't be read
		}
		return nil, err
	}
	var rest []Kind
	for _, k := range kinds {
		l, err := k.layout()
		if err != nil {
			return nil, err
		}
		description, ok, err := l.Recognise(folder)
		switch {
		case err != nil && depth > 0, errors.Is(err, db.ErrInvalid): // a link leads out of dir
			rest = append(rest, k)
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
		below, err := recognise(filepath.Join(dir, e.Name()), o, rest, depth+1)
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	return found, nil
}
