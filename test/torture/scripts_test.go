package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"selvedge"
	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// within are calls that others of a script make.
var within = map[string]string{
	"Hold":  "appends of the holder, which begin with it",
	"Close": "Shutdown", "WriteLocked": "appends and claims, which are made by it", "Keep": "Renew, on a timer",
	"AppendRecords": "AppendTurns", "AppendBatch": "Append, which calls it",
	"ImportRecords": "an import", "DeleteImported": "an import",
}

// A store's public calls that write are all in a script; a form with Tx is what the form without it runs.
func TestEveryPublicWriteIsInAScript(t *testing.T) {
	files, err := filepath.Glob("script*.go")
	must(t, err)
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		source.Write(text)
	}
	looked := 0
	for _, store := range []struct {
		kind     any
		receiver string // how scripts write the one whose method is called
	}{
		{(*db.DB)(nil), `(s\.db|\bd)`},
		{(*db.Lease)(nil), `held\(s, "[a-z]+"\)`},
		{(*runs.Store)(nil), `(traces\(s\)|runs\.NewStore\(.*\))`},
		{(*runs.Run)(nil), `held\(s, "run-\d"\)`},
		{(*live.Store)(nil), `(liveRuns|otherLive)\(s\)`},
		{(*live.Run)(nil), `held\(s, "live-\d"\)`},
		{(*agents.Registry)(nil), `(registry|otherAgents)\(s\)`},
		{(*agents.Lease)(nil), `(kept\(s\)|\(\*agents\.Lease\))`},
		{(*checkpoints.Store)(nil), `(paused|others)\(s\)`},
		{(*checkpoints.Claim)(nil), `\(\*checkpoints\.Claim\)`},
		{(*live.RunHandle)(nil), `live\.NewRunHandle\(.*\)`},
		{(*workers.Runtime)(nil), `\br`},
		{(*workers.Runtimes)(nil), `runtimes\(s\)`},
		{(*selvedge.Store)(nil), `front\(s\)`},
		{(*selvedge.Run)(nil), `(mine\(s, "[a-z]+"\)|\brun)`},
		{(*state.Store)(nil), `values\(s\)`},
	} {
		for _, name := range dbtest.PublicWrites(store.kind) {
			looked++
			if _, ok := within[name]; ok {
				continue
			}
			if !regexp.MustCompile(store.receiver + `\.` + name + `\(`).MatchString(source.String()) {
				t.Errorf("%T.%s is in no script", store.kind, name)
			}
		}
	}
	if looked < 50 {
		t.Errorf("only %d calls were looked for", looked)
	}
}
