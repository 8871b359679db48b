package checkpoints_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// sqlite3 asks the real program, as a person does.
func sqlite3(t *testing.T, path, query string) string {
	t.Helper()
	out, err := exec.Command("sqlite3", "-readonly", path, query).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", query, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestTheViewsAnswerTheDailyQuestions(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := checkpoints.NewStore(d, checkpoints.Options{ClaimTTL: time.Minute})
	old := sample("waits")
	old.CreatedAt = time.Now().Add(-time.Hour)
	check(t, store.Save(ctx, old))
	save(t, store, "claimed")
	mustClaim(t, store, "claimed")
	save(t, store, "claimed")
	check(t, d.Write(ctx, "import", func(tx *db.Tx) error {
		return checkpoints.PutImported(tx, checkpoints.Paused, "torn", []byte("{"))
	}))

	for query, want := range map[string]string{
		`SELECT run_id, prompt FROM v_checkpoints WHERE state = 'paused' AND problem IS NULL
			ORDER BY run_id`: "claimed|approve?\nwaits|approve?",
		`SELECT paused_seconds BETWEEN 3595 AND 3700 FROM v_checkpoints
			WHERE run_id = 'waits'`: "1",
		`SELECT paused_at FROM v_checkpoints WHERE run_id = 'claimed'
			LIMIT 1`: "2026-05-02T10:00:00.500000000Z",
		`SELECT owner_pid > 0, owner_program, lease_seconds, claimed_seconds BETWEEN 0 AND 60,
			length(claimed_at) > 19 FROM v_checkpoints WHERE state = 'claimed'`: "1|checkpoints.test|60.0|1|1",
		`SELECT run_id, problem, paused_at IS NULL FROM v_checkpoints
			WHERE problem IS NOT NULL`: "torn|EOF while parsing an object at line 1 column 1|1",
		`SELECT json_extract(document, '$.output_key') FROM v_checkpoint_documents
			WHERE run_id = 'waits'`: "approval",
	} {
		if got := sqlite3(t, d.Path(), query); got != want {
			t.Errorf("%s\nis %q, want %q", query, got, want)
		}
	}
}
