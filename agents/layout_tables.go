package agents

import "selvedge/internal/tree"

// Beside returns the registry's lock file.
func (kind) Beside(t *tree.Tree) ([]tree.Kept, error) {
	return []tree.Kept{{Folder: t.Folder, Path: lockFile}}, nil
}

// Tables are the tables of an agent.
func (kind) Tables() []tree.Table {
	return []tree.Table{
		{
			Name: "agents", Noun: "agent", Said: "agent",
			Query: `SELECT a.*, (SELECT name FROM scopes WHERE id = a.scope) AS scope_name FROM agents AS a
				WHERE a.id = ?1`,
			Numbers: []string{"id", "scope", "checksum"},
			Marks:   []string{"changes", "recorded_at", "pid_ns"},
			Forms:   []string{"document"},
			Explains: func(column string, _, ours map[string]any, _ bool) bool {
				aside, isAside := ours["put_aside_at"].(int64)
				end, ended := ours["completed_at"].(int64)
				if !ended {
					end, _ = ours["started_at"].(int64)
				}
				return column == "put_aside_at" && isAside && aside-int64(staleAfter) >= end
			},
			Kind: func(map[string]any) string { return "agent" },
		},
		{
			Name: "agent_context_queries", Noun: "context query",
			Query: `SELECT * FROM agent_context_queries WHERE agent_id = ?1 ORDER BY position`,
			Key:   []string{"position"}, Numbers: []string{"agent_id", "checksum"},
		},
		{
			Name: "agent_reservations", Noun: "reservation",
			Query: `SELECT r.*, (SELECT name FROM scopes WHERE id = r.scope) AS scope_name
				FROM agent_reservations AS r WHERE r.agent_id = ?1`,
			Numbers: []string{"epoch", "scope", "agent_id"},
			Clocks:  []string{"reserved_at"},
			Marks: []string{
				"heartbeat_at", "lease_ttl", "lease_until", "lease_boot_id", "owner_id", "pid_born_at",
				"lease_time_ns", "lease_wall_until",
			},
			Own: true,
		},
	}
}
