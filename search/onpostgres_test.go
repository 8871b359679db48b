//go:build postgres

package search_test

import (
	"testing"

	"selvedge/db"
	"selvedge/search"
	"selvedge/test/dbtest"
)

func TestPostgresDoesWhatTheFileDoes(t *testing.T) {
	dbtest.OnPostgres(t,
		TestSearch_FindsEveryKindOfText, TestSearch_OutputOnlyIfAsked, TestRedact_LeavesNothingInTheIndex,
		TestOpen_WithoutAgentsLeavesThemOut, TestSearch_PagesHaveEachHitOnce, TestSearch_AgreesWithLIKE,
		TestSearch_LongTextsAreFoundWhole, TestUpdate_FindsErrorOfMarkedLiveRun,
	)
}

// The index lies in schemas of its own, which go with Forget.
func TestPostgres_ForgetDropsTheSchemas(t *testing.T) {
	dbtest.OnPostgres(t, forgetDropsTheSchemas)
}

func forgetDropsTheSchemas(t *testing.T) {
	d := stored(t)
	ok(t, open(t, d, search.Options{}).Close())
	ok(t, open(t, d, search.Options{Output: true}).Close())
	dbtest.PostgresExec(t, d.Path(), `CREATE SCHEMA selvedge_search_1x; -- somebody else's
CREATE TABLE selvedge_search_1x.words (lexemes TEXT)`)
	for _, want := range []int{3, 1} {
		n := 0
		ok(t, d.Read(ctx, "count", func(rx *db.Rx) error {
			return rx.Get(&n, `SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, 'selvedge_search_1')`)
		}))
		if n != want {
			t.Errorf("%d schemas, want %d", n, want)
		}
		ok(t, search.Forget(ctx, d))
	}
}

// A handle that only reads, such as that of migrate serve, brings the index up to date too.
func TestPostgres_ReadingHandleSearches(t *testing.T) {
	dbtest.OnPostgres(t, readingHandleSearches)
}

func readingHandleSearches(t *testing.T) {
	d := dbtest.OpenAt(t, stored(t).Path(), db.Options{ReadOnly: true})
	if got := find(t, open(t, d, search.Options{}), search.Query{Words: "furnace"}); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
