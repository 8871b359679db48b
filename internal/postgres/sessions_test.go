//go:build postgres

package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/engine"
	"selvedge/test/dbtest"
)

// A reader that stays keeps every version of a row. A commit looks at as many pages as in the beginning.
func TestPostgres_CommitsBesideLongReaderStayFlat(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	reader, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(t.Context()) //nolint:errcheck // it only reads
	_, err = reader.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	pages := func() int64 {
		<-time.After(1100 * time.Millisecond) // a server's process reports its counts once a second
		exec(t, e, "INSERT INTO kept VALUES (0)")
		return get[int64](t, e, `SELECT heap_blks_hit + idx_blks_hit FROM pg_statio_all_tables
	WHERE relid = 'selvedge.sessions'::regclass`)
	}
	commits := func() int64 {
		before := pages()
		for range 2000 {
			out := e.Write(t.Context(), "test", func(x engine.Tx) error {
				_, err := x.Exec("INSERT INTO kept VALUES (1)", nil)
				return err
			})
			if out.Err != nil {
				t.Fatal(out.Err)
			}
		}
		return pages() - before
	}
	first := commits()
	for range 3 {
		commits()
	}
	if last := commits(); last > first*3/2 {
		t.Errorf("2,000 commits read %d pages, and %d later", first, last)
	}
}
