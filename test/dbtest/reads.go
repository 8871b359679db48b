//go:build postgres

package dbtest

import (
	"strconv"
	"testing"
)

// PostgresReads returns how many rows of a table, or entries of its indexes, all sessions
// together have read on a server. It ends all sessions there: the server counts their reads only
// when they are gone.
func PostgresReads(t testing.TB, address, table string) int64 {
	t.Helper()
	PostgresExec(t, address, `SELECT pg_terminate_backend(pid, 100000) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	rows := PostgresExec(t, address, `SELECT t.seq_tup_read + (SELECT sum(i.idx_tup_read)
	FROM pg_stat_user_indexes AS i WHERE i.relid = t.relid)
FROM pg_stat_user_tables AS t WHERE t.schemaname = 'selvedge' AND t.relname = '`+table+`'`)
	n, err := strconv.ParseInt(string(rows[0][0]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
