//go:build postgres

package dbtest

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresStatements are the texts that servers were asked to prepare, unchanged.
type PostgresStatements struct {
	mu   sync.Mutex
	seen map[string]bool
}

// Through returns the address of a proxy before a server, behind which the statements are noted.
func (s *PostgresStatements) Through(t testing.TB, address string) string {
	t.Helper()
	return PostgresProxy(t, address, func(to io.Writer, from io.Reader) {
		_ = PostgresMessages(from, true, func(kind byte, message []byte) error {
			if kind == 'P' { // Parse: its length, the statement's name and its text
				_, rest, _ := bytes.Cut(message[5:], []byte{0})
				text, _, _ := bytes.Cut(rest, []byte{0})
				s.mu.Lock()
				if s.seen == nil {
					s.seen = map[string]bool{}
				}
				s.seen[string(text)] = true
				s.mu.Unlock()
			}
			_, err := to.Write(message)
			return err
		})
	}, func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) })
}

// Texts are all of them, in an order.
func (s *PostgresStatements) Texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.seen))
}

// PostgresPlans returns the generic plan of each statement on the server at an address, as
// EXPLAIN prints it in JSON, with the settings of the engine's sessions, and with sorting avoided
// wherever that is possible.
func PostgresPlans(t testing.TB, address string, statements []string) map[string][]byte {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // nothing depends on it
	run := func(text string) [][]byte {
		results, err := conn.Exec(t.Context(), text).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if last := results[len(results)-1]; len(last.Rows) > 0 {
			return last.Rows[0]
		}
		return nil
	}
	run(`SET search_path = selvedge; SET enable_seqscan = off; SET enable_sort = off;
		SET plan_cache_mode = force_generic_plan`)
	plans := map[string][]byte{}
	for _, text := range statements {
		described, err := conn.Prepare(t.Context(), "explained", text, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		call := "EXPLAIN (FORMAT JSON, COSTS OFF) EXECUTE explained"
		if n := len(described.ParamOIDs); n > 0 {
			call += "(" + strings.Join(slices.Repeat([]string{"NULL"}, n), ", ") + ")"
		}
		plans[text] = run(call)[0]
		run("DEALLOCATE explained")
	}
	return plans
}
