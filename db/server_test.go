package db_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
)

// nobody is the address of a server that isn't there: the port is one that no program may listen on.
const nobody = "postgres://user:secret@127.0.0.1:1/database?password=secret&connect_timeout=1"

func TestAnAddressIsNoFilesName(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx := t.Context()
	for what, try := range map[string]func(address string) error{
		"open": func(address string) error {
			d, err := db.Open(ctx, address, db.Options{})
			if err == nil {
				return d.Close()
			}
			return err
		},
		"migrate": func(address string) error {
			_, err := maintenance.Migrate(ctx, address, db.Options{})
			return err
		},
	} {
		for _, address := range []string{nobody, strings.Replace(nobody, "postgres", "postgresql", 1)} {
			if err := try(address); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s says %v", what, err)
			}
		}
	}
	for what, try := range map[string]func(context.Context) error{
		"rehearse": func(ctx context.Context) error {
			_,
				err := maintenance.Rehearse(ctx, nobody, db.Options{})
			return err
		},
		"restore": func(ctx context.Context) error {
			_,
				err := maintenance.Restore(ctx, "backup", nobody, db.Options{})
			return err
		},
		"compact": func(ctx context.Context) error {
			_, err := maintenance.Compact(ctx, nobody, db.Options{})
			return err
		},
		"salvage": func(ctx context.Context) error {
			_, err := maintenance.Salvage(ctx, nobody, "to", maintenance.SalvageOptions{})
			return err
		},
		"salvage to": func(ctx context.Context) error {
			_, err := maintenance.Salvage(ctx, "from", nobody, maintenance.SalvageOptions{})
			return err
		},
	} {
		err := try(ctx)
		if !errors.Is(err, db.ErrUnsupported) || db.Hint(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s says %v; its hint is %q", what, err, db.Hint(err))
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("files were made: %v, %v", made, err)
	}
}
