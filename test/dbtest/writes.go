package dbtest

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// reading are the beginnings of the names of calls that write nothing.
var reading = regexp.MustCompile(`^(ActorChain|AgentFor|All|Call$|Catalog|Changes|Check|ClaimedAt|` +
	`Context$|Cost$|Count|Cursor|DB$|Diagnostics|Document$|Each|Epoch|Event|Examine|Failed|Find|Follow|For$|` +
	`Get|Health|History|ID|Kind|Lease$|Lines|List|Load|Longest|Name|NeedsMe|NewHandle$|Of$|Owner|Page|` +
	`Path|Paused|Pins$|Read|Reattach|Ref$|Records|Refs|Reservation|Retention|Root|Run|Schema|Scope|` +
	`Session|Snapshot|Standing|Stats|Status|Steps|Store$|Subscribe|Summary|Thread|Trace|Transcript|` +
	`TurnNumber|Work)`)

// PublicWrites returns the names of a store's methods that write, in order; store is a pointer of
// its type. A form with Tx is what the form without it runs, and counts as the same.
func PublicWrites(store any) (names []string) {
	for method := range reflect.TypeOf(store).Methods() {
		name := strings.TrimSuffix(method.Name, "Tx")
		if !reading.MatchString(name) || strings.HasPrefix(name, "FindOrCreate") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
