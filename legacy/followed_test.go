package legacy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"selvedge/db"
)

func TestImport_OtherFolderChangesNothing(t *testing.T) {
	ctx := context.Background()
	for kind, files := range damaged() {
		for name, replace := range map[string]func(dir string) error{
			"empty":   func(dir string) error { return os.Mkdir(dir, 0o700) },
			"missing": func(string) error { return nil },
			"another": func(dir string) error {
				return errors.Join(os.Mkdir(dir, 0o700), os.CopyFS(dir, os.DirFS(dir+"-away")))
			},
		} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "tree")
				files.below(t, dir)
				d := emptyFile(t)
				if _, err := Import(ctx, d, kind, dir, Options{}); err != nil {
					t.Fatal(err)
				}
				before := dump(t, d)
				if err := errors.Join(os.Rename(dir, dir+"-away"), replace(dir)); err != nil {
					t.Fatal(err)
				}
				if err := CheckFollowed(ctx, d, kind, dir, Options{}); !errors.Is(err, ErrOtherFolder) ||
					db.Hint(err) == "" {
					t.Errorf("the check says %v", err)
				}
				if _, err := Import(ctx, d, kind, dir, Options{}); !errors.Is(err, ErrOtherFolder) {
					t.Errorf("the import says %v", err)
				}
				if after := dump(t, d); !slices.Equal(before, after) {
					t.Errorf("it changed %s", firstDifference(before, after))
				}
				if name != "another" {
					return
				}
				if _, err := Import(ctx, d, kind, dir, Options{OtherFolder: true}); err != nil {
					t.Error(err)
				}
				if _, err := Import(ctx, d, kind, dir, Options{}); err != nil {
					t.Errorf("what was said to be meant is not followed: %v", err)
				}
			})
		}
	}
}

func TestImport_EmptiedFolderIsFollowed(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	folder{"r-1.json": `{"run_id":"r-1"}`}.below(t, dir)
	d := emptyFile(t)
	for i, want := range []int64{0, 1} {
		report, err := Import(ctx, d, Checkpoints, dir, Options{})
		if err != nil || report.Files.Gone != want {
			t.Errorf("import %d: %d files are gone, %v", i+1, report.Files.Gone, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "r-1.json")); err != nil {
			t.Fatal(err)
		}
	}
}

// A program from before the journal kept folders leaves nothing to compare with; the next import does.
func TestImport_TakesTheFolderWhereNoneIsKnown(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "tree")
	folder{"r-1.json": `{"run_id":"r-1"}`}.below(t, dir)
	d := emptyFile(t)
	if _, err := Import(ctx, d, Checkpoints, dir, Options{}); err != nil {
		t.Fatal(err)
	}
	err := d.Write(ctx, "forget", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE imports SET files = json_remove(files, '$.folder'), checksum = NULL`)
		return err
	})
	if err := errors.Join(err, os.Rename(dir, dir+"-away"), os.CopyFS(dir, os.DirFS(dir+"-away"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Import(ctx, d, Checkpoints, dir, Options{}); err != nil {
			t.Error(err)
		}
	}
	// One that was killed has an entry without an end, which says it, too.
	err = d.Write(ctx, "kill", func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM imports WHERE id < (SELECT max(id) FROM imports)`)
		if err == nil {
			_, err = tx.Exec(`UPDATE imports SET ended_at = NULL, outcome = NULL, counts = NULL, checksum = NULL`)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(dir, dir+"-second"), os.CopyFS(dir, os.DirFS(dir+"-away"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(ctx, d, Checkpoints, dir, Options{}); !errors.Is(err, ErrOtherFolder) {
		t.Errorf("now it is known, and: %v", err)
	}
}
