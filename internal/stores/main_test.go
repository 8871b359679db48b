package stores_test

import (
	"context"
	"errors"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func openTable(t *testing.T, statements ...string) (string, *db.DB) {
	t.Helper()
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	for _, s := range statements {
		write(t, d, s)
	}
	return path, d
}

func write(t *testing.T, d *db.DB, statement string, args ...any) {
	t.Helper()
	must(t, d.Write(context.Background(), "test", func(tx *db.Tx) error {
		_, err := tx.Exec(statement, args...)
		return err
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantsPanic(t *testing.T, what string, err error, text string) {
	t.Helper()
	p, is := errors.AsType[*db.Panic](err)
	if !is || p.Value != text {
		t.Errorf("%s: %v, not the panic", what, err)
	}
}
