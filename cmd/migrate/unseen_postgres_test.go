//go:build postgres

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/test/dbtest"
)

// TestPostgres_UnrecordedTreesAnswerLikeFile changes recorded trees at random, and compares all
// that the program says of them. See dbtest.Unseen.
func TestPostgres_UnrecordedTreesAnswerLikeFile(t *testing.T) {
	server := dbtest.Postgres(t)
	for _, seed := range dbtest.Unseen(t, len(legacy.Kinds())) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			kind := legacy.Kinds()[seed%uint64(len(legacy.Kinds()))]
			dir := treeOf(t, kind, []string{"small", "awkward"}[seed/5%2])
			disturbed := disturb(t, random, dir)
			defer func() {
				if t.Failed() {
					t.Logf("%s, changed so:\n%s", kind, strings.Join(disturbed, "\n"))
				}
			}()
			p := &pair{t: t, file: dbtest.Path(t), server: fmt.Sprintf("%s&search_path=unseen_%d", server, seed)}
			defer func() {
				dbtest.PostgresExec(t, server,
					fmt.Sprintf("DROP SCHEMA IF EXISTS unseen_%d CASCADE", seed))
			}()
			p.compare(kind, dir)
		})
	}
}

// TestPostgresADatabaseWithOtherDefaultsAnswersAsAFile gives a database another order of texts, and
// all settings another default that have something to do with what a statement means.
func TestPostgresADatabaseWithOtherDefaultsAnswersAsAFile(t *testing.T) {
	server := os.Getenv(dbtest.PostgresVariable)
	name := fmt.Sprintf("selvedge_otherwise_%d", os.Getpid())
	dbtest.PostgresExec(t, server, "CREATE DATABASE "+name+
		" ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8' TEMPLATE template0")
	t.Cleanup(func() { dbtest.PostgresExec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	for _, setting := range []string{
		"TimeZone = 'Asia/Kolkata'", "DateStyle = 'German, DMY'", "IntervalStyle = 'iso_8601'",
		"standard_conforming_strings = off", "bytea_output = 'escape'", "search_path = 'pg_catalog'",
		"default_transaction_isolation = 'serializable'", "default_transaction_read_only = on",
		"default_transaction_deferrable = on", "extra_float_digits = -15", "client_encoding = 'LATIN1'",
		"transform_null_equals = on", "backslash_quote = off", "quote_all_identifiers = on",
		"plan_cache_mode = 'force_generic_plan'", "array_nulls = off", "lc_numeric = 'C.UTF-8'",
		"synchronous_commit = off", "row_security = off", "default_text_search_config = 'german'", "jit = on",
	} {
		dbtest.PostgresExec(t, server, "ALTER DATABASE "+name+" SET "+setting)
	}
	address := strings.Replace(server, "/postgres?", "/"+name+"?", 1)
	for _, kind := range legacy.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			p := &pair{t: t, file: dbtest.Path(t), server: address + "&search_path=of_" + string(kind)}
			tree := "small"
			if kind == legacy.Runs || kind == legacy.Checkpoints {
				tree = "awkward"
			}
			p.compare(kind, treeOf(t, kind, tree))
			p.sorts()
		})
	}
}

// sorts compares the order of the texts of all views.
func (p *pair) sorts() {
	p.t.Helper()
	sorted := func(path string) map[string][]string {
		columns := map[string][]string{}
		d, err := db.Open(p.t.Context(), path, db.Options{ReadOnly: true})
		if err != nil {
			p.t.Fatal(err)
		}
		defer d.Close() //nolint:errcheck // opened for reading only
		if err := d.Read(p.t.Context(), "order", func(rx *db.Rx) error {
			all, err := rx.Store().Relations()
			for _, r := range all {
				for _, c := range r.Columns {
					if !r.View || passing.MatchString(c) || importTimes.MatchString(c) || err != nil {
						continue
					}
					for row, failed := range rx.Query(fmt.Sprintf(`SELECT "%[1]s" FROM %[2]s WHERE "%[1]s" IS NOT NULL
						ORDER BY 1`, c, r.Name)) {
						var value any
						if err = failed; err == nil {
							err = row.Scan(&value)
						}
						if text, ok := value.(string); ok && strings.ToValidUTF8(text, "") == text &&
							!strings.ContainsAny(text, "\x00\ufffd") {
							columns[r.Name+"."+c] = append(columns[r.Name+"."+c], text)
						}
					}
				}
			}
			return err
		}); err != nil {
			p.t.Fatal(err)
		}
		return columns
	}
	want, got := sorted(p.file), sorted(p.server)
	if len(want) == 0 {
		p.t.Error("there are no texts")
	}
	for column := range want {
		if !slices.Equal(want[column], got[column]) {
			p.t.Errorf("%s is in another order:\n%.300q\n%.300q", column, want[column], got[column])
		}
	}
}
