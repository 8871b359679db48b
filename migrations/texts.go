package migrations

// Texts says of a table's columns of text and bytes whether what users and models wrote may stand
// in them. Every such column of the schema is in one of the lists.
type Texts struct {
	Table string
	Key   []string // names its rows
	Plain []string // text
	// text that says what a row is: as an id where all of its texts go, and as any text where a
	// pattern is sought
	Kinds []string
	JSON  []string // JSON, or another format of which a piece was kept
	// what rows are found by, and what other places call them by: it can't be another without being
	// another thing
	Names []string
	Words []string // the program's own: statuses, times, digests

	// Pieces: the rows with the same first part of the key are one text, cut anywhere.
	Pieces bool

	// Run and Agent are the rows that belong to the run, and to the agent, of a scope and an id, in
	// this order. "": they belong to none.
	Run, Agent string
}

const (
	recordsOf = `id >> 24 IN (SELECT key FROM runs WHERE scope = ? AND `
	eventsOf  = `id >> 32 IN (SELECT key FROM live_runs WHERE scope = ? AND run_id = ?)`
	textsOf   = `run IN (SELECT key FROM live_runs WHERE scope = ? AND run_id = ?)`
	runNamed  = `? IN (run_id, shown_run_id)`
	byAgent   = `? IN (agent_id, shown_agent_id)`

	inSession       = `scope = ? AND session_id = ?`
	eventsInSession = `id >> 32 IN (SELECT key FROM live_runs WHERE scope = ? AND session_id = ?)`
	textsInSession  = `run IN (SELECT key FROM live_runs WHERE scope = ? AND session_id = ?)`
	// What is named by the id of one of the agent's runs, traces and live ones.
	ofRunsByAgent = `(scope, run_id) IN (WITH asked (scope, agent) AS (SELECT ?, ?)
SELECT r.scope, r.run_id FROM asked AS a JOIN runs AS r ON r.scope = a.scope
	AND a.agent IN (r.agent_id, r.shown_agent_id)
UNION SELECT r.scope, r.run_id FROM asked AS a JOIN live_runs AS r ON r.scope = a.scope
	AND r.session_id = a.agent)`
)

// quarantineOf is what of an agent lies in quarantine: the group of a run is its agent, and a file
// of the registry has the agent's own id.
const quarantineOf = `scope = ? AND ? IN (entity_group, CASE
	WHEN source IN (SELECT id FROM import_sources WHERE kind = 'agents') THEN entity_id END)`

// TextColumns are those of the schema.
var TextColumns = []Texts{
	{
		Table: "runs", Key: []string{"key"}, Plain: []string{"intent", "summary"},
		Names: []string{"agent_id", "run_id", "shown_agent_id", "shown_run_id"},
		Words: []string{"started_at_text", "status", "outcome", "ended_at_text"}, Run: `scope = ? AND ` + runNamed,
		Agent: `scope = ? AND ` + byAgent,
	},
	{
		Table: "run_records", Key: []string{"id"}, Kinds: []string{"unknown_kind"},
		Plain: []string{"prompt", "tool", "policy_rule", "policy_param"},
		JSON:  []string{"parameters", "output", "raw"}, Words: []string{"kind", "cli_kind", "verdict"},
		Run: recordsOf + runNamed + `)`, Agent: recordsOf + byAgent + `)`,
	},
	{Table: "run_agents", Names: []string{"agent_id"}},
	{Table: "run_append_keys", Names: []string{"append_key"}, Words: []string{"digest"}},
	{Table: "run_spent_keys", Names: []string{"run_id", "agent_id", "append_key"}, Words: []string{"digest"}},

	{
		Table: "live_runs", Key: []string{"key"}, Names: []string{"run_id", "session_id"},
		Words: []string{"status", "created_at_ms", "updated_at_ms", "event_count_exact"},
		Run:   `scope = ? AND run_id = ?`, Agent: inSession,
	},
	{
		Table: "live_texts", Key: []string{"run"}, Plain: []string{"prompt", "result_text", "error"},
		JSON: []string{"further"}, Run: textsOf, Agent: textsInSession,
	},
	{
		Table: "live_events", Key: []string{"id"}, JSON: []string{"event", "raw"}, Words: []string{"type"},
		Run: eventsOf, Agent: eventsInSession,
	},
	{
		Table: "live_imports", Key: []string{"run", "source"}, JSON: []string{"text"}, Names: []string{"path"},
		Words: []string{"digest", "stamp"}, Run: textsOf, Agent: textsInSession,
	},
	{Table: "live_copies", Names: []string{"path"}},
	{Table: "live_append_keys", Names: []string{"append_key"}, Words: []string{"sequence", "digest"}},

	{
		Table: "agents", Key: []string{"id"}, Plain: []string{
			"client_instance_id", "native_actor_key", "native_parent_actor_key", "native_instance_key",
			"heddle_session_id", "thread_id",
			"liveness_path", "anchor_state", "anchor_root", "reservation_token", "path", "base_state", "provider",
			"model", "harness", "thinking_level",
			"report_flush_state", "winning_attach_rule", "probe_source", "attach_reason",
		}, JSON: []string{"attach_precedence", "document"}, Names: []string{"session_id", "thread"},
		Words: []string{"status", "boot_id", "exact"},
		Agent: `scope = ? AND session_id = ?`,
	},
	{
		Table: "agent_context_queries", Key: []string{"agent_id", "position"}, Plain: []string{"path", "part"},
		Words: []string{"exact"},
		Agent: `agent_id IN (SELECT id FROM agents WHERE scope = ? AND session_id = ?)`,
	},
	{Table: "agent_reservations", Names: []string{"thread"}, Words: []string{"lease_boot_id"}},

	{
		Table: "checkpoints", Key: []string{"id"}, Kinds: []string{"paused_stage_id"},
		Plain: []string{"prompt", "problem"}, Names: []string{"run_id"},
		Words: []string{"state", "created_at_text", "lease_boot_id"}, Run: `scope = ? AND run_id = ?`,
		Agent: ofRunsByAgent,
	},
	{
		Table: "checkpoint_documents", Key: []string{"checkpoint"}, JSON: []string{"document"},
		Run:   `checkpoint IN (SELECT id FROM checkpoints WHERE scope = ? AND run_id = ?)`,
		Agent: `checkpoint IN (SELECT id FROM checkpoints WHERE ` + ofRunsByAgent + `)`,
	},
	{
		Table: "checkpoint_history", Key: []string{"id"}, Kinds: []string{"paused_stage_id"},
		Plain: []string{"decision", "decided_by", "prompt"},
		Names: []string{"run_id"}, Words: []string{"ending", "created_at_text", "owner_program"},
		Run: `scope = ? AND run_id = ?`, Agent: ofRunsByAgent,
	},

	{
		Table: "worker_runtimes", Key: []string{"key"}, Plain: []string{"display_name"},
		Names: []string{"runtime_id"}, Words: []string{"status"},
	},
	{Table: "workers", Key: []string{"key"}, Names: []string{"worker_id"}, Words: []string{"status"}},
	{
		Table: "worker_requests", Key: []string{"worker"},
		Plain: []string{"objective", "role", "purpose", "profile_value", "config_bundle"},
		JSON:  []string{"requested_capabilities", "workspace_refs", "mount_refs"},
		Words: []string{"intent", "profile"},
	},
	{
		Table: "worker_events", Key: []string{"id"}, Plain: []string{"message"}, JSON: []string{"raw"},
		Words: []string{"kind"},
	},
	{
		Table: "worker_entries", Key: []string{"id"}, Plain: []string{"content"}, JSON: []string{"raw"},
		Words: []string{"role"},
	},
	{
		Table: "worker_diagnostics", Key: []string{"id"}, Plain: []string{"message"}, JSON: []string{"raw"},
		Words: []string{"severity", "code"},
	},
	{Table: "worker_runtime_documents", Key: []string{"runtime"}, JSON: []string{"document"}},
	{Table: "worker_documents", Key: []string{"worker"}, JSON: []string{"document"}},

	{Table: "import_sources", Names: []string{"root"}, Words: []string{"kind"}},
	{
		Table: "imports", Key: []string{"id"}, Plain: []string{"error"}, Names: []string{"user"},
		Words: []string{"program", "outcome", "counts", "files"},
	},
	{
		Table: "import_conflicts", Key: []string{"id"}, Plain: []string{"reason"},
		Names: []string{"path", "entity_id", "user"},
		Words: []string{"kind", "taken", "program"},
	},
	{
		Table: "import_files", Key: []string{"source", "path"}, JSON: []string{"tail"},
		Names: []string{"path", "entity_group", "entity_id"},
		Words: []string{"state", "prefix_sha256", "records"},
		Run:   `source IN (SELECT id FROM import_sources WHERE scope = ?) AND entity_id = ?`,
		Agent: `source IN (SELECT id FROM import_sources WHERE scope = ?) AND entity_group = ?`,
	},
	{Table: "import_settings", Key: []string{"source"}, JSON: []string{"raw"}},
	{
		Table: "quarantine", Key: []string{"id"}, Plain: []string{"reason"},
		Names: []string{"path", "entity_group", "entity_id"}, Words: []string{"what"},
		Run: `scope = ? AND entity_id = ?`, Agent: quarantineOf,
	},
	{
		Table: "quarantine_parts", Key: []string{"quarantine", "part"}, JSON: []string{"raw"}, Pieces: true,
		Run:   `quarantine IN (SELECT id FROM quarantine WHERE scope = ? AND entity_id = ?)`,
		Agent: `quarantine IN (SELECT id FROM quarantine WHERE ` + quarantineOf + `)`,
	},

	{Table: "retention", Words: []string{"store"}},
	{Table: "retention_pins", Names: []string{"id", "owner"}, Words: []string{"store"}},
	{
		Table: "leases", Key: []string{"epoch"}, Plain: []string{"note"}, Names: []string{"kind", "name"},
		Words: []string{"lease_boot_id"},
	},
	{Table: "moves", Names: []string{"place"}, Words: []string{"token", "direction", "outcome", "proof"}},
	{Table: "scopes", Names: []string{"name"}},
	{Table: "owners", Words: []string{"token", "boot_id", "program"}},
	{Table: "selvedge_file", Words: []string{"views_digest", "views"}},
}
