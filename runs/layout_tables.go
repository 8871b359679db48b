package runs

import (
	"bytes"
	"context"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/internal/usage"
)

// Title returns the name of a run for people.
func (layout) Title(e tree.Entity) string { return title(e) }

// Things returns the run that a file became.
func (layout) Things(_ *db.Rx, _ tree.Source, row *tree.Row) ([]tree.Thing, error) {
	return tree.OneThing(row), nil
}

// Find looks up a run.
func (layout) Find(rx *db.Rx, scope string, e tree.Entity) (tree.Thing, bool, error) {
	number, ok, err := rx.Store().Scope(scope)
	if err != nil || !ok {
		return tree.Thing{}, false, err
	}
	at, ok, err := stateOf(rx, number, e)
	return tree.Thing{Entity: e, Row: at.Row}, ok, err
}

// Tables returns the tables of a run.
func (layout) Tables() []tree.Table {
	return []tree.Table{
		{
			Name: "runs", Noun: "run", Said: "run",
			Query: `SELECT r.*, (SELECT name FROM scopes WHERE id = r.scope) AS scope_name FROM runs AS r
				WHERE r.key = ?1`,
			Numbers: []string{"key", "scope", "checksum"},
			Marks:   []string{"owner_id", "parent"},
		},
		{
			Name: "run_records", Noun: "line", Said: "turn",
			Query: `SELECT r.*, r.id & 16777215 AS sequence FROM run_records AS r
				WHERE r.id > CAST(?1 AS BIGINT) << 24 AND r.id < (CAST(?1 AS BIGINT) + 1) << 24 ORDER BY r.id`,
			Key:     []string{"sequence"},
			Numbers: []string{"id", "checksum"},
			Marks:   []string{"batch", "recorded_at"},
			Forms:   []string{"raw"},
			Explains: func(column string, _, ours map[string]any, alike bool) bool {
				// A row from before bytes were stored has none.
				return alike && column == "exact" || column == "bytes" && ours["bytes"] == nil
			},
			Kind: func(row map[string]any) string {
				raw, _ := row["raw"].([]byte)
				switch kind, _ := row["kind"].(string); {
				case kind != "opaque":
					return kind
				case readLine(raw).kind == lineBlank:
					return tree.Blank
				}
				return tree.Undecodable
			},
		},
		{
			Name: "usage_records", Noun: "row of usage",
			Query: usage.Compared + ` FROM runs AS r
	JOIN usage_runs AS w ON w.id = 2 * r.key JOIN usage_records AS u ON u.usage_run = w.id
WHERE r.key = ?1 AND u.account <> 'reply' ORDER BY u.account, u.sequence`,
			Key:   []string{"account", "sequence"},
			Marks: []string{"recorded_at", "first_at"},
		},
		{
			Name: "run_append_keys", Noun: "key",
			Query: `SELECT * FROM run_append_keys WHERE run = ?1 ORDER BY append_key`,
			Key:   []string{"append_key"}, Numbers: []string{"run", "checksum"}, Own: true,
		},
	}
}

// Settings returns config.toml and the limits that it sets. It returns no tables for a file that
// equals what an export would write now, which holds nothing new.
func (layout) Settings(ctx context.Context, t *tree.Tree) (tables []tree.Table, file string, there bool,
	err error,
) {
	found, err := configOf(t.Dir)
	if err != nil {
		return nil, configFile, false, err
	}
	if t.Source.ID == 0 && found.problem == "" {
		s, err := settingsOf(ctx, t)
		if err != nil || s.there && bytes.Equal(s.text, found.text) {
			return nil, configFile, false, err
		}
	}
	return []tree.Table{
		{
			Name: "retention", Noun: "limit",
			Query: `SELECT r.*, (SELECT name FROM scopes WHERE id = r.scope) AS scope_name FROM retention AS r
				WHERE r.source = ?1 ORDER BY r.store`,
			Key:     []string{"store"},
			Numbers: []string{"scope", "source", "checksum"},
			Clocks:  []string{"set_at"},
		},
		{
			Name: "import_settings", Noun: "file of settings",
			Query:   `SELECT * FROM import_settings WHERE source = ?1`,
			Numbers: []string{"source", "checksum"},
		},
	}, configFile, !found.gone, nil
}
