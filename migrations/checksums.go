package migrations

import "strings"

// A Checksum states that a column of a table holds a checksum of other columns of the same row:
// db.Checksum of their values in this order, or NULL in a row that was last written before there
// were checksums. A person who changes such a row by hand must set the checksum to NULL, or the
// check of the file reports the row.
type Checksum struct {
	Table   string
	Column  string
	Covered []string
}

// Checksums are the checksums of the schema.
var Checksums = []Checksum{
	{"scopes", "checksum", columns("name")},
	{"owners", "checksum", columns("token pid boot_id program registered_at pid_ns")},
	{"leases", "checksum", columns(`
		scope kind name note reserved_at renewed_at owner_id lease_ttl lease_until lease_boot_id
		lease_time_ns lease_wall_until`)},
	{"import_sources", "checksum", columns("scope kind root first_at last_at")},
	{"import_files", "checksum", columns(`
		source path state entity_group entity_id entity_row last_sequence size consumed prefix_sha256
		open_line records imported_at tail`)},
	{"imports", "checksum", columns(`
		source began_at ended_at pid user program outcome counts files error`)},
	{"import_conflicts", "checksum", columns(`
		scope kind entity_id source path import reason found_at decided_at taken pid user program`)},
	{"import_settings", "checksum", columns("source raw")},
	{"live_copies", "checksum", columns("run source path position")},
	{"quarantine", "checksum", columns(`
		scope source path byte_offset what reason entity_group entity_id found_at`)},
	{"quarantine_parts", "checksum", columns("quarantine part raw")},
	{"runs", "checksum", columns(`
		scope agent_id run_id shown_agent_id shown_run_id intent started_at started_at_text status outcome
		ended_at ended_at_text turn_count others summary`)},
	{"run_records", "checksum", columns(`
		kind unknown_kind turn_index prompt tool parameters output cli_kind cli_code verdict policy_rule
		policy_param raw exact batch recorded_at`)},
	{"run_append_keys", "checksum", columns("append_key digest")},
	{"run_steps", "checksum", columns(`
		step_key kind state tool policy prompt request attempt epoch turn result decision settled_by error
		created_at changed_at`)},
	{"usage_runs", "checksum", columns("id scope run_id agent_id session_id recorded_at")},
	{"usage_records", "checksum", columns(`
		usage_run account sequence step_key recorded_at provider request_model response_model input_tokens
		cache_read_input_tokens cache_write_input_tokens output_tokens reasoning_output_tokens cost_nanos`)},
	{"usage_days", "checksum", columns(`
		scope day agent_id session_id provider request_model response_model input_tokens
		cache_read_input_tokens cache_write_input_tokens output_tokens reasoning_output_tokens cost_nanos`)},
	// the keys come from run_append_keys
	{"run_spent_keys", "checksum", columns("append_key digest")},
	{"live_runs", "checksum", columns(`
		scope run_id session_id status created_at created_at_ms updated_at updated_at_ms event_count
		event_count_exact kept_events kept_bytes places first_place`)},
	{"live_texts", "checksum", columns("run prompt result_text error further")},
	{"live_events", "checksum", columns("id sequence type recorded_at event raw batch")},
	{"live_append_keys", "checksum", columns("run append_key sequence digest")},
	{"live_imports", "checksum", columns("path digest stamp text")},
	{"worker_runtimes", "checksum", columns(`
		scope runtime_id display_name status max_transcript_items max_event_items next_worker_sequence
		next_diagnostic_id first_event_position events_in_order running_workers stopped_workers
		cancelled_workers diagnostics created_at stopped_at`)},
	{"workers", "checksum", columns(`
		runtime worker_id status transcript_len next_transcript_sequence last_event_id created_at
		last_input_at ended_at`)},
	{"worker_requests", "checksum", columns(`
		worker intent objective role purpose profile profile_value config_bundle capabilities
		requested_capabilities workspace_refs mount_refs`)},
	{"worker_events", "checksum", columns("id event_id worker kind message recorded_at raw")},
	{"worker_entries", "checksum", columns("id sequence role content event_id recorded_at raw batch")},
	{"worker_diagnostics", "checksum", columns(`
		id diagnostic_id severity code message worker recorded_at raw`)},
	{"worker_runtime_documents", "checksum", columns("runtime document")},
	{"worker_documents", "checksum", columns("worker document")},
	{"agents", "checksum", columns(`
		scope session_id thread status started_at completed_at pid boot_id heartbeat_at last_progress_at
		client_instance_id native_actor_key native_parent_actor_key native_instance_key heddle_session_id
		thread_id liveness_path anchor_state anchor_root reservation_token path base_state provider model
		harness thinking_level input_tokens output_tokens reasoning_tokens tool_calls cost_micros_usd
		report_flush_state attach_precedence winning_attach_rule probe_source probe_confidence attach_reason
		exact document pid_ns recorded_at`)},
	{"agent_context_queries", "checksum", columns("agent_id position path part queried_at exact")},
	{"checkpoints", "row_checksum", columns(`
		scope run_id paused_stage_id prompt created_at created_at_text saved_at size checksum problem
		agent_id`)},
	{"checkpoint_documents", "checksum", columns("checkpoint document")},
	{"checkpoint_history", "checksum", columns(`
		scope run_id ending decision decided_by paused_stage_id prompt created_at created_at_text saved_at
		size claimed_at completed_at epoch owner_pid owner_program agent_id`)},
	{"state_values", "checksum", columns("scope owner state_key value updated_at")},
	{"retention", "checksum", columns("scope store max_age max_count max_bytes source set_at")},
	{"moves", "checksum", columns("token direction place began_at ended_at outcome moved proof")},
	{"retention_pins", "checksum", columns("scope store id owner pinned_at")},
}

func columns(names string) []string { return strings.Fields(names) }

// KeptByTriggers are the tables whose rows are written by triggers on other tables.
var KeptByTriggers = []string{"run_agents"}

// NoChecksum are the tables whose rows have no checksum, and need none.
var NoChecksum = []string{
	"selvedge_file",    // one row, which the check of the versions compares with the migrations that were run
	"goose_db_version", // goose's own, compared with selvedge_file by the check of the versions
	"run_agents",       // counts that triggers keep, which the invariant runs_agents counts again
	// numbers of runs whose records are being removed; the invariant runs_records_without_run finds records
	// of any other
	"run_leavings",
	// numbers of live runs whose events are being written or removed; the invariant
	// live_events_without_run finds events of any other
	"live_leavings",
	"agent_reservations", // the invariant agents_reservations compares them with their agents
	"live_scopes",        // counts that statements keep, which the invariant live_scopes counts again
}
