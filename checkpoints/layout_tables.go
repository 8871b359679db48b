package checkpoints

import "selvedge/internal/tree"

// Beside returns nothing.
func (kind) Beside(*tree.Tree) ([]tree.Kept, error) { return nil, nil }

// Tables are the tables of a checkpoint. The lowest bit of its number is its state.
func (kind) Tables() []tree.Table {
	return []tree.Table{
		{
			Name: "checkpoints", Noun: "checkpoint", Said: "checkpoint",
			Query: `SELECT c.*, (SELECT name FROM scopes WHERE id = c.scope) AS scope_name FROM checkpoints AS c
				WHERE c.id = CAST(?1 AS BIGINT) >> 1`,
			Numbers: []string{"id", "scope", "row_checksum"},
			Clocks:  []string{"saved_at", "claimed_at"},
			Marks: []string{
				"state", "epoch", "claimed_at", "owner_id", "changes", "lease_ttl", "lease_until", "lease_boot_id",
				"lease_time_ns", "lease_wall_until", "agent_id",
			},
			Kind: func(row map[string]any) string {
				if row["problem"] != nil {
					return tree.Undecodable
				}
				return "checkpoint"
			},
		},
		{
			Name: "checkpoint_documents", Noun: "document",
			Query:   `SELECT * FROM checkpoint_documents WHERE checkpoint = CAST(?1 AS BIGINT) >> 1`,
			Numbers: []string{"checkpoint", "checksum"},
		},
	}
}
