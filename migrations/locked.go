package migrations

// Locked are the tables of which, on a server, the stores' operations lock a row first. A
// transaction that has locked them all exclusively has no such operation beside it. An operation
// that locks rows of several tables locks them in this order.
var Locked = []string{
	"runs", "live_runs", "worker_runtimes", "checkpoints", "agents", "agent_reservations",
	"leases",
}
