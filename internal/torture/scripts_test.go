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
var reading = regexp.MustCompile(`^(ActorChain|AgentFor|All|Changes|Check|Count|Cursor|Diagnostics|Each|Epoch|Event|Examine|Find|Follow|Get|Health|History|ID|Kind|Lease|Lines|List|` +
	`Load|Longest|Name|Owner|Page|Path|Paused|Pins$|Read|Reattach|Ref$|Records|Refs|Reservation|Retention|Root|Run|Schema|Scope|Session|Snapshot|Standing|Stats|Status|` +
	`Subscribe|Summary|Thread|Trace|Transcript|Work)`)

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
		{(*workers.Runtime)(nil), `\br`},
	} {
		kind := reflect.TypeOf(store.kind)
		for method := range kind.Methods() {
			name := strings.TrimSuffix(method.Name, "Tx")
			if reading.MatchString(name) && !strings.HasPrefix(name, "FindOrCreate") {
				continue
			}
			looked++
			if _, ok := within[name]; ok {
				continue
			}
			if !regexp.MustCompile(store.receiver + `\.` + name + `\(`).MatchString(source.String()) {
				t.Errorf("%s.%s is in no script", kind, name)
			}
		}
	}
	if looked < 50 {
		t.Errorf("only %d calls were looked for", looked)
	}
}
