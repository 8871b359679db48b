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

// A Found is a tree that Recognise found.
type Found struct {
	Kind        Kind   `json:"kind"`        // what KIND calls it
	Dir         string `json:"source"`      // the folder that it was seen in
	Description string `json:"description"` // what it is, in a few words
}

// recogniseDepth is how many levels below a folder Recognise searches: a home folder holds ~/.car,
// and that holds ~/.car/workflow-runs.
const recogniseDepth = 2

// Recognise searches for trees in dir and in the folders up to two levels below it, so that dir may
// be a home folder. It does not follow links there. A tree counts if a record in it can be read.
// Below a tree, Recognise does not search for another of its kind. It skips what it can't read
// below dir, and what is left of an export that was killed.
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
		if !e.IsDir() || e.Name() == tree.Unfinished {
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
