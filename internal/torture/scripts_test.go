package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// reading are the beginnings of the names of calls that write nothing, and how the others begin that are none of ours.
var reading = regexp.MustCompile(`^(ActorChain|AgentFor|All|Changes|Check|Count|Cursor|Diagnostics|Each|Epoch|Event|Examine|Find|Follow|Get|Health|ID|Kind|Lease|Lines|List|` +
	`Load|Longest|Name|Owner|Page|Path|Paused|Read|Reattach|Ref$|Records|Refs|Reservation|Retention|Root|Run|Schema|Scope|Session|Snapshot|Standing|Stats|Status|` +
	`Subscribe|Summary|Thread|Trace|Transcript|Worker)`)

// within are calls that others of a script make.
var within = map[string]string{
	"Close": "Shutdown", "Keep": "Renew, on a timer", "KeepLease": "Renew, on a timer", "AppendRecords": "AppendTurns", "AppendAgain": "Append with Repeat", "ImportRecords": "an import", "DeleteImported": "an import",
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
	for _, store := range []any{
		(*db.DB)(nil), (*db.Lease)(nil), (*runs.Store)(nil), (*runs.Run)(nil), (*live.Store)(nil), (*agents.Registry)(nil), (*agents.Lease)(nil),
		(*checkpoints.Store)(nil), (*checkpoints.Claim)(nil), (*workers.Runtime)(nil),
	} {
		kind := reflect.TypeOf(store)
		for i := range kind.NumMethod() {
			name := strings.TrimSuffix(kind.Method(i).Name, "Tx")
			if reading.MatchString(name) && !strings.HasPrefix(name, "FindOrCreate") {
				continue
			}
			looked++
			if _, ok := within[name]; ok {
				continue
			}
			if !strings.Contains(source.String(), "."+name+"(") {
				t.Errorf("%s.%s is in no script", kind, name)
			}
		}
	}
	if looked < 50 {
		t.Errorf("only %d calls were looked for", looked)
	}
}
