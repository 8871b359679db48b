package storetest

import "fmt"

// stores are all stores, each with the parts of the grammar that it has.
var stores = []store{
	ofRuns, ofLive, ofAgents, ofCheckpoints, ofAgentCheckpoints, ofWorkers, ofRuntimes, ofReservations, ofState,
}

// statuses are those of a filter; "" is any.
func statuses[S ~string](status string) []S {
	if status == "" {
		return nil
	}
	return []S{S(status)}
}

// nth names thing n. The names are in the order of the numbers, and begin alike.
func nth(n int) string { return fmt.Sprintf("thing-%06d", n) }
