package migrations

// Texts lists a table's columns of text and bytes by whether they may hold what users and models
// wrote. All others hold the program's own words: statuses, times, digests.
type Texts struct {
	Table string
	Key   []string // identifies its rows
	Plain []string // text
	// text that says what kind a row is: retained like an id if all texts of the row are erased,
	// and erased like any text by a pattern
	Kinds []string
	JSON  []string // JSON, or a piece of another format
	// names by which rows are found and by which other places refer to them: a changed name would
	// be the name of something else
	Names []string

	// Pieces marks a table whose rows with the same first part of the key are one text, cut
	// anywhere.
	Pieces bool

	// Run and Agent are the conditions for the rows that belong to the run, and to the agent, of a
	// scope and an id, in this order. "": no row belongs to one.
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
	// Rows that name the agent, and those that name none with the id of one of its runs, traces and live
	// ones.
	ofCheckpointsByAgent = `(scope, run_id, coalesce(agent_id, '')) IN (WITH asked (scope, agent) AS (
	SELECT ?, ?) SELECT r.scope, r.run_id, '' FROM asked AS a JOIN runs AS r ON r.scope = a.scope
	AND a.agent IN (r.agent_id, r.shown_agent_id)
UNION SELECT r.scope, r.run_id, '' FROM asked AS a JOIN live_runs AS r ON r.scope = a.scope
	AND r.session_id = a.agent
UNION SELECT c.scope, c.run_id, c.agent_id FROM asked AS a JOIN checkpoints AS c ON c.scope = a.scope
	AND c.agent_id = a.agent
UNION SELECT h.scope, h.run_id, h.agent_id FROM asked AS a JOIN checkpoint_history AS h ON h.scope = a.scope
	AND h.agent_id = a.agent)`
)

// quarantineOf is the condition for an agent's rows in quarantine: the group of a run is its agent,
// and a file of the registry has the agent's own id.
const quarantineOf = `scope = ? AND ? IN (entity_group, CASE
	WHEN source IN (SELECT id FROM import_sources WHERE kind = 'agents') THEN entity_id END)`

// TextColumns are the text columns of the schema.
var TextColumns = []Texts{
	{
		Table: "runs", Key: columns("key"), Plain: columns("intent summary"),
		Names: columns("agent_id run_id shown_agent_id shown_run_id"),
		Run:   `scope = ? AND ` + runNamed, Agent: `scope = ? AND ` + byAgent,
	},
	{
		Table: "run_records", Key: columns("id"), Kinds: columns("unknown_kind"),
		Plain: columns("prompt tool policy_rule policy_param"), JSON: columns("parameters output raw"),
		Run: recordsOf + runNamed + `)`, Agent: recordsOf + byAgent + `)`,
	},
	{Table: "run_agents", Names: columns("agent_id")},
	{
		Table: "run_steps", Key: columns("run step_key"), Plain: columns("tool prompt decision settled_by error"),
		JSON: columns("request result"), Names: columns("step_key"),
		Run:   `run IN (SELECT key FROM runs WHERE scope = ? AND ` + runNamed + `)`,
		Agent: `run IN (SELECT key FROM runs WHERE scope = ? AND ` + byAgent + `)`,
	},
	{
		Table: "usage_runs", Key: columns("id"), Names: columns("run_id agent_id session_id"),
		Run: `scope = ? AND run_id = ?`, Agent: `scope = ? AND ? IN (agent_id, session_id)`,
	},
	{
		Table: "usage_records", Key: columns("id"), Plain: columns("provider request_model response_model"),
		Names: columns("step_key"),
		Run:   `usage_run IN (SELECT id FROM usage_runs WHERE scope = ? AND run_id = ?)`,
		Agent: `usage_run IN (SELECT id FROM usage_runs WHERE scope = ? AND ? IN (agent_id, session_id))`,
	},
	{
		Table: "usage_days", Key: columns("id"), Plain: columns("provider request_model response_model"),
		Names: columns("agent_id session_id"), Agent: `scope = ? AND ? IN (agent_id, session_id)`,
	},
	{Table: "run_append_keys", Names: columns("append_key")},
	{Table: "run_spent_keys", Names: columns("run_id agent_id append_key")},

	{
		Table: "live_runs", Key: columns("key"), Names: columns("run_id session_id"),
		Run: `scope = ? AND run_id = ?`, Agent: inSession,
	},
	{
		Table: "live_texts", Key: columns("run"), Plain: columns("prompt result_text error"),
		JSON: columns("further"), Run: textsOf, Agent: textsInSession,
	},
	{
		Table: "live_events", Key: columns("id"), JSON: columns("event raw"),
		Run: eventsOf, Agent: eventsInSession,
	},
	{
		Table: "live_imports", Key: columns("run source"), JSON: columns("text"), Names: columns("path"),
		Run: textsOf, Agent: textsInSession,
	},
	{Table: "live_copies", Names: columns("path")},
	{Table: "live_append_keys", Names: columns("append_key")},

	{
		Table: "agents", Key: columns("id"),
		Plain: columns(`client_instance_id native_actor_key native_parent_actor_key native_instance_key
			heddle_session_id thread_id liveness_path anchor_state anchor_root reservation_token path
			base_state provider model harness thinking_level report_flush_state winning_attach_rule
			probe_source attach_reason`),
		JSON: columns("attach_precedence document"), Names: columns("session_id thread"), Agent: inSession,
	},
	{
		Table: "agent_context_queries", Key: columns("agent_id position"), Plain: columns("path part"),
		Agent: `agent_id IN (SELECT id FROM agents WHERE scope = ? AND session_id = ?)`,
	},
	{Table: "agent_reservations", Names: columns("thread")},

	{
		Table: "checkpoints", Key: columns("id"), Kinds: columns("paused_stage_id"),
		Plain: columns("prompt problem"), Names: columns("run_id agent_id"),
		Run: `scope = ? AND run_id = ?`, Agent: ofCheckpointsByAgent,
	},
	{
		Table: "checkpoint_documents", Key: columns("checkpoint"), JSON: columns("document"),
		Run:   `checkpoint IN (SELECT id FROM checkpoints WHERE scope = ? AND run_id = ?)`,
		Agent: `checkpoint IN (SELECT id FROM checkpoints WHERE ` + ofCheckpointsByAgent + `)`,
	},
	{
		Table: "checkpoint_history", Key: columns("id"), Kinds: columns("paused_stage_id"),
		Plain: columns("decision decided_by prompt"), Names: columns("run_id agent_id"),
		Run: `scope = ? AND run_id = ?`, Agent: ofCheckpointsByAgent,
	},

	{
		Table: "worker_runtimes", Key: columns("key"), Plain: columns("display_name"),
		Names: columns("runtime_id"),
	},
	{Table: "workers", Key: columns("key"), Names: columns("worker_id")},
	{
		Table: "worker_requests", Key: columns("worker"),
		Plain: columns("objective role purpose profile_value config_bundle"),
		JSON:  columns("requested_capabilities workspace_refs mount_refs"),
	},
	{Table: "worker_events", Key: columns("id"), Plain: columns("message"), JSON: columns("raw")},
	{Table: "worker_entries", Key: columns("id"), Plain: columns("content"), JSON: columns("raw")},
	{Table: "worker_diagnostics", Key: columns("id"), Plain: columns("message"), JSON: columns("raw")},
	{Table: "worker_runtime_documents", Key: columns("runtime"), JSON: columns("document")},
	{Table: "worker_documents", Key: columns("worker"), JSON: columns("document")},

	{
		Table: "state_values", Key: columns("id"), JSON: columns("value"), Names: columns("owner state_key"),
		Agent: `scope = ? AND owner = ?`,
	},

	{Table: "import_sources", Names: columns("root")},
	{Table: "imports", Key: columns("id"), Plain: columns("error"), Names: columns("user")},
	{
		Table: "import_conflicts", Key: columns("id"), Plain: columns("reason"),
		Names: columns("path entity_id user"),
	},
	{
		Table: "import_files", Key: columns("source path"), JSON: columns("tail"),
		Names: columns("path entity_group entity_id"),
		Run:   `source IN (SELECT id FROM import_sources WHERE scope = ?) AND entity_id = ?`,
		Agent: `source IN (SELECT id FROM import_sources WHERE scope = ?) AND entity_group = ?`,
	},
	{Table: "import_settings", Key: columns("source"), JSON: columns("raw")},
	{
		Table: "quarantine", Key: columns("id"), Plain: columns("reason"),
		Names: columns("path entity_group entity_id"),
		Run:   `scope = ? AND entity_id = ?`, Agent: quarantineOf,
	},
	{
		Table: "quarantine_parts", Key: columns("quarantine part"), JSON: columns("raw"), Pieces: true,
		Run:   `quarantine IN (SELECT id FROM quarantine WHERE scope = ? AND entity_id = ?)`,
		Agent: `quarantine IN (SELECT id FROM quarantine WHERE ` + quarantineOf + `)`,
	},

	{Table: "retention_pins", Names: columns("id owner")},
	{Table: "leases", Key: columns("epoch"), Plain: columns("note"), Names: columns("kind name")},
	{Table: "moves", Names: columns("place")},
	{Table: "scopes", Names: columns("name")},
}
