package replay

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// FolderVariable names, in the environment, a further folder of transcripts and trees: one folder a
// store, each with transcripts/*.jsonl, NAME.tar.gz and NAME.expected.json. A relative path is one
// from the module's root.
const FolderVariable = "SELVEDGE_LEGACY"

// Transcripts reads all transcripts of a store: those in testdata/legacy, packed, and those in the
// folder that SELVEDGE_LEGACY names. A folder "transcripts-later" counts too.
func Transcripts(store string) ([]Transcript, error) {
	var list []Transcript
	err := eachFolder(store, func(set, folder string) error {
		return eachFile(folder, func(name string, read func() ([]byte, error)) error {
			if !strings.HasPrefix(name, "transcripts") {
				return nil
			}
			text, err := read()
			if err != nil {
				return err
			}
			if before, ok := strings.CutSuffix(name, ".tar.gz"); ok {
				return eachPacked(text, func(inner string, text []byte) error {
					if !strings.HasSuffix(inner, ".jsonl") {
						return nil
					}
					packed := before
					return appendParsed(&list, path.Join(set, packed, path.Base(inner)), text)
				})
			}
			return appendParsed(&list, path.Join(set, name), text)
		})
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there are no transcripts of %s", store)
	}
	return list, err
}

func appendParsed(list *[]Transcript, name string, text []byte) error {
	t, err := Parse(name, text)
	if err == nil {
		*list = append(*list, t)
	}
	return err
}

// A Tree is an original's tree on disk, packed, with the original's answers on it.
type Tree struct {
	Name     string // as in "runs/small"
	Packed   []byte // a tar.gz with one directory: the argument of an importer
	Expected []byte // JSON
}

// Trees reads all trees of a store, from the same places as Transcripts.
func Trees(store string) ([]Tree, error) {
	var list []Tree
	err := eachFolder(store, func(set, folder string) error {
		files := map[string]func() ([]byte, error){}
		err := eachFile(folder, func(name string, read func() ([]byte, error)) error {
			files[name] = read
			return nil
		})
		if err != nil {
			return err
		}
		for name, read := range files {
			base, isTree := strings.CutSuffix(name, ".tar.gz")
			if !isTree || strings.HasPrefix(name, "transcripts") {
				continue
			}
			tree := Tree{Name: path.Join(set, base)}
			if tree.Packed, err = read(); err != nil {
				return err
			}
			if expected, ok := files[base+".expected.json"]; ok {
				tree.Expected, err = expected()
			} else if expected, ok := files[base+".expected.json.gz"]; ok {
				tree.Expected, err = unzip(expected)
			} else {
				err = fmt.Errorf("%s has no expected answers", tree.Name)
			}
			if err != nil {
				return err
			}
			list = append(list, tree)
		}
		return nil
	})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there are no trees of %s", store)
	}
	slices.SortFunc(list, func(a, b Tree) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// eachFolder visits the store's folder in testdata/legacy and the one in SELVEDGE_LEGACY. set is
// how its files are called in tests.
func eachFolder(store string, visit func(set, folder string) error) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if err := visit(store, filepath.Join(root, "testdata", "legacy", store)); err != nil {
		return err
	}
	more := os.Getenv(FolderVariable)
	if more == "" {
		return nil
	}
	if !filepath.IsAbs(more) {
		more = filepath.Join(root, more)
	}
	if _, err := os.ReadDir(more); err != nil {
		return fmt.Errorf("%s names no folder: %w", FolderVariable, err)
	}
	folder := filepath.Join(more, store)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return visit("more/"+store, folder)
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = parent
	}
}

// eachFile visits the regular files below folder, by path.
func eachFile(folder string, visit func(name string, read func() ([]byte, error)) error) error {
	return filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(name), func() ([]byte, error) { return os.ReadFile(file) })
	})
}

func unzip(read func() ([]byte, error)) ([]byte, error) {
	packed, err := read()
	if err != nil {
		return nil, err
	}
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// eachPacked visits the regular files of a tar.gz.
func eachPacked(packed []byte, visit func(name string, text []byte) error) error {
	zipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	for in := tar.NewReader(zipped); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if err := visit(head.Name, text); err != nil {
			return err
		}
	}
}

// Unpack writes the tree into dir, with its modes and links.
func (t Tree) Unpack(dir string) error {
	zipped, err := gzip.NewReader(bytes.NewReader(t.Packed))
	if err != nil {
		return err
	}
	// Folders get their modes last: some may not be written to.
	var folders []*tar.Header
	for in := tar.NewReader(zipped); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(path.Clean("/"+head.Name)))
		switch head.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(target, 0o700)
			folders = append(folders, head)
		case tar.TypeSymlink:
			err = os.Symlink(head.Linkname, target)
		case tar.TypeLink:
			err = os.Link(filepath.Join(dir, filepath.FromSlash(path.Clean("/"+head.Linkname))), target)
		case tar.TypeReg:
			err = unpackFile(target, head, in)
		default:
			err = fmt.Errorf("%s is of a type that trees don't have", head.Name)
		}
		if err != nil {
			return err
		}
	}
	for _, head := range slices.Backward(folders) {
		target := filepath.Join(dir, filepath.FromSlash(path.Clean("/"+head.Name)))
		if err := os.Chmod(target, fs.FileMode(head.Mode).Perm()); err != nil {
			return err
		}
	}
	return nil
}

func unpackFile(target string, head *tar.Header, in io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, in); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Chmod(target, fs.FileMode(head.Mode).Perm())
}
