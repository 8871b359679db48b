package migrations

// A Checksum says that a column of a table holds the checksum of others of the same row: db.Checksum of their values in this
// order, or NULL in a row that was not written since there are checksums. A person who changes such a row by hand sets it to
// NULL, or the check of the file reports the row.
type Checksum struct {
	Table   string
	Column  string
	Covered []string
}

// Checksums are those of the schema.
var Checksums = []Checksum{
	{Table: "runs", Column: "checksum", Covered: []string{
		"scope", "agent_id", "run_id", "shown_agent_id", "shown_run_id", "intent", "started_at", "started_at_text", "status",
		"outcome", "ended_at", "ended_at_text", "turn_count", "others",
	}},
	{Table: "run_records", Column: "checksum", Covered: []string{
		"kind", "unknown_kind", "turn_index", "prompt", "tool", "parameters", "output", "cli_kind", "cli_code", "verdict",
		"policy_rule", "policy_param", "raw", "exact", "batch", "recorded_at",
	}},
	{Table: "live_runs", Column: "checksum", Covered: []string{
		"scope", "run_id", "session_id", "status", "created_at", "created_at_ms", "updated_at", "updated_at_ms", "event_count",
		"event_count_exact", "kept_events", "kept_bytes", "places", "first_place",
	}},
	{Table: "live_texts", Column: "checksum", Covered: []string{"run", "prompt", "result_text", "error", "further"}},
	{Table: "live_events", Column: "checksum", Covered: []string{"id", "sequence", "type", "recorded_at", "event", "raw", "batch"}},
	{Table: "live_imports", Column: "checksum", Covered: []string{"path", "digest", "stamp", "text"}},
}
