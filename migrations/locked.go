package migrations

// Locked are the tables of which the stores' operations lock a row first, on a server: a
// transaction that has them alone has no such operation beside it. An operation that locks rows of
// several tables takes them in this order.
var Locked = []string{
	"runs", "live_runs", "worker_runtimes", "checkpoints", "agents", "agent_reservations",
	"leases",
}
