package migrations

// Locked are the tables of which a row is what an operation of a store locks first, on a server:
// whoever has these alone has no such operation beside it. Who locks rows of several does so in
// this order.
var Locked = []string{
	"runs", "live_runs", "worker_runtimes", "checkpoints", "agents", "agent_reservations",
	"leases",
}
