package migrations

// Locked are the tables whose rows the stores' operations lock first, on a server. While a
// transaction has these tables alone, no such operation runs. An operation that locks rows of
// several tables locks them in this order.
var Locked = []string{
	"runs", "live_runs", "worker_runtimes", "checkpoints", "agents", "agent_reservations",
	"leases", "usage_days",
}
