package storetest_test

import (
	"context"
	"os"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/storetest"
)

func TestMain(m *testing.M) {
	dbtest.Main(m, map[string]dbtest.Program{"serve": func(args []string) error {
		d, err := db.Open(context.Background(), args[0], db.Options{Synchronous: db.SyncNormal})
		if err != nil {
			return err
		}
		defer d.Close() //nolint:errcheck // what it did is told already
		return storetest.Serve(context.Background(), d, os.Stdin, os.Stdout)
	}})
}

var onFile = storetest.Shared{
	Again: func(t *testing.T, d *db.DB) *db.DB {
		return dbtest.OpenAt(t, d.Path(), db.Options{Synchronous: db.SyncNormal})
	},
	Process: func(t *testing.T, d *db.DB) storetest.Process { return dbtest.Start(t, "serve", d.Path()) },
}

func newFile(t *testing.T) *db.DB { return dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}) }

func TestOnAFile(t *testing.T) { storetest.RunShared(t, newFile, onFile) }

func TestInMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *db.DB { return dbtest.OpenAt(t, ":memory:", db.Options{}) })
}
