package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// datasetteAnswer is metadata as Datasette reads it (docs.datasette.io/en/stable/metadata.html).
type datasetteAnswer struct {
	Title string `json:"title"` // of the site
	// one, by the name that Datasette gives the file: its own, without the ending
	Databases map[string]datasetteDatabase `json:"databases"`
}

type datasetteDatabase struct {
	Description string                    `json:"description"` // for people
	Tables      map[string]datasetteTable `json:"tables"`      // by name
	Queries     map[string]datasetteQuery `json:"queries"`     // pages by name, whose rows link to each other
}

type datasetteTable struct {
	LabelColumn string `json:"label_column,omitempty"`     // what rows that refer to one of it show
	Hidden      bool   `json:"hidden,omitempty"`           // not among the tables that the first page shows
	Description string `json:"description_html,omitempty"` // a link to the page about its rows
}

type datasetteQuery struct {
	Title       string `json:"title"`       // of the page
	Description string `json:"description"` // what it shows
	SQL         string `json:"sql"`         // the query; its parameters are numbers of rows
}

var _ = register("Look:", 20, func(a *app) *cobra.Command {
	var base string
	c := &cobra.Command{
		Use:   "datasette [--url URL]",
		Short: "Write the metadata with which Datasette shows the file as pages that link to each other",
		Long: `datasette writes a metadata file for Datasette (datasette.io), a program that shows SQLite files in
a browser. Views have no foreign keys, so Datasette can't link their rows; the pages of this file are
queries whose rows do:

    migrate --db agents.db datasette > metadata.json
    datasette agents.db --metadata metadata.json

Rows of tables show the names of those that they refer to, and small tables of the program's own are hidden.
The answer is JSON, with --json or without. The file itself isn't opened, and needn't be there.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			u, err := url.Parse(base)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return usage("--url %q is no address of a site, as in http://127.0.0.1:8001", base)
			}
			return a.printJSON(datasetteMetadata(a.path, strings.TrimSuffix(u.String(), "/")))
		},
	}
	c.Flags().StringVar(&base, "url", "http://127.0.0.1:8001", "`URL` at which people reach Datasette")
	return a.answering(c, datasetteAnswer{})
})

func datasetteMetadata(path, base string) datasetteAnswer {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	at := base + "/" + tildes(name) + "/"
	tables := map[string]datasetteTable{
		"runs":        {LabelColumn: "run_id", Description: pageLink(at, "latest_runs")},
		"live_runs":   {LabelColumn: "run_id", Description: pageLink(at, "latest_live_runs")},
		"agents":      {LabelColumn: "session_id", Description: pageLink(at, "latest_agents")},
		"checkpoints": {LabelColumn: "run_id", Description: pageLink(at, "approved")},
		"workers":     {LabelColumn: "worker_id"}, "worker_runtimes": {LabelColumn: "runtime_id"},
		"scopes": {LabelColumn: "name"}, "owners": {LabelColumn: "program"},
	}
	for _, hidden := range []string{
		"goose_db_version", "selvedge_file", "run_agents", "run_append_keys", "run_leavings", "run_spent_keys",
		"live_append_keys", "live_leavings", "live_scopes",
	} {
		tables[hidden] = datasetteTable{Hidden: true}
	}
	queries := map[string]datasetteQuery{}
	for _, p := range datasettePages {
		address := "'" + strings.ReplaceAll(at, "'", "''") + "' || "
		p.query.SQL = strings.ReplaceAll(strings.TrimSpace(p.query.SQL), "@", address)
		queries[p.name] = p.query
	}
	return datasetteAnswer{Title: "Selvedge: " + name, Databases: map[string]datasetteDatabase{name: {
		Description: "State of agents: run traces, live runs, the registry, paused workflows and workers. Begin " +
			"with the queries.",
		Tables: tables, Queries: queries,
	}}}
}

// tildes encodes a name as Datasette does in addresses
// (docs.datasette.io/en/stable/internals.html#tilde-encoding).
func tildes(name string) string {
	return strings.NewReplacer(".", "~2E", "~", "~7E", "%", "~").Replace(url.QueryEscape(name))
}

func pageLink(at, name string) string {
	return fmt.Sprintf(`<a href="%s">The page with links</a>`, strings.ReplaceAll(at, `"`, "%22")+name)
}

// datasettePages are the pages. Datasette turns a cell that is an address into a link; @ stands for
// the address of the file's pages. The parameters are numbers of rows, so they need no quoting,
// whatever an id holds. A page must not have the name of a table, since their addresses would be
// the same.
var datasettePages = []struct {
	name  string
	query datasetteQuery
}{
	{"latest_runs", datasetteQuery{"Runs", "What ran last, and how it ended.", `
SELECT r.started_at, r.agent_id, r.run_id, r.status, r.outcome, r.summary, r.turns, r.bytes,
    @'one_run?run=' || r.run AS trace, @'one_live_run?run=' || r.live_run AS live,
    @'one_run?run=' || r.parent AS parent, @'runs/' || r.run AS row
FROM v_runs AS r ORDER BY r.started_at_ns DESC LIMIT 200`}},
	{"one_run", datasetteQuery{
		"One run",
		"Its records, and where it leads. The number of a run is its key in the table runs.", `
SELECT s.sequence, s.at, s.kind, s.tool, s.prompt, s.result, s.link
FROM (
    SELECT 0 AS sequence, r.started_at AS at, r.status AS kind, r.agent_id AS tool, r.intent AS prompt,
        r.summary AS result, @'runs/' || r.run AS link
    FROM v_runs AS r WHERE r.run = CAST(:run AS INTEGER)
    UNION ALL
    SELECT 0, c.started_at, 'started', c.agent_id, c.intent, c.status, @'one_run?run=' || c.run
    FROM v_runs AS c WHERE c.parent = CAST(:run AS INTEGER)
    UNION ALL
    SELECT t.sequence, t.recorded_at, 'turn', t.tool, t.prompt, t.error_type,
        @'run_records/' || ((t.run << 24) + t.sequence)
    FROM v_turns AS t WHERE t.run = CAST(:run AS INTEGER)
    UNION ALL
    SELECT m.sequence, m.recorded_at, 'model_turn', coalesce(m.response_model, m.request_model),
        coalesce(m.input_tokens, '?') || ' tokens in, ' || coalesce(m.output_tokens, '?') || ' out',
        coalesce(m.error_type, m.cost_usd || ' US$'), @'run_records/' || ((m.run << 24) + m.sequence)
    FROM v_model_turns AS m WHERE m.run = CAST(:run AS INTEGER)
) AS s ORDER BY s.sequence, s.at`,
	}},
	{"latest_live_runs", datasetteQuery{"Live runs", "What runs now, and what ran.", `
SELECT r.updated_at, r.session_id, r.run_id, r.status, r.last_event, r.error,
    @'one_live_run?run=' || r.run AS events, @'one_run?run=' || r.trace AS trace,
    @'live_runs/' || r.run AS row
FROM v_live_runs AS r ORDER BY r.updated_at_ns DESC LIMIT 200`}},
	{"one_live_run", datasetteQuery{
		"One live run",
		"Its events. The number of a live run is its key in the table live_runs.", `
SELECT e.sequence, e.recorded_at, e.type, e.tool_name, e.error, e.input_tokens, e.output_tokens, e.event,
    @'live_runs/' || e.run AS run
FROM v_live_events AS e WHERE e.run = CAST(:run AS INTEGER) ORDER BY e.sequence`,
	}},
	{"latest_agents", datasetteQuery{"Agents", "All that the file knows, the last first.", `
SELECT a.started_at, a.session_id, a.thread, a.status, a.model, a.input_tokens, a.output_tokens, a.cost_usd,
    @'one_agent?agent=' || a.agent AS work, @'agents/' || a.agent AS row
FROM v_agents AS a ORDER BY a.started_at_ns DESC LIMIT 200`}},
	{"one_agent", datasetteQuery{
		"One agent",
		"Its runs and live runs. The number of an agent is its id in the table agents.", `
SELECT w.at, w.kind, w.run_id, w.status, w.link
FROM v_agents AS a JOIN (
    SELECT r.scope, r.agent_id AS name, r.started_at AS at, 'trace' AS kind, r.run_id, r.status,
        @'one_run?run=' || r.run AS link FROM v_runs AS r
    UNION ALL
    SELECT l.scope, l.session_id, l.created_at, 'live', l.run_id, l.status, @'one_live_run?run=' || l.run
    FROM v_live_runs AS l
) AS w ON w.scope = a.scope AND w.name = a.session_id
WHERE a.agent = CAST(:agent AS INTEGER) ORDER BY w.at DESC`,
	}},
	{"waiting", datasetteQuery{
		"Who waits for a person",
		"Paused workflows, and tool calls that nobody confirmed.", `
SELECT w.waiting_since, w.kind, w.run_id, w.question, w.waiting_seconds,
    coalesce(@'one_live_run?run=' || w.live_run, @'checkpoints/' || w.checkpoint) AS link
FROM v_waiting AS w ORDER BY w.waiting_since_ns`,
	}},
	{"approved", datasetteQuery{"What was approved", "And by whom, until retention takes it.", `
SELECT p.asked_at, p.kind, p.run_id, p.question, p.state, p.decision, p.decided_by, p.waited_seconds,
    @'one_run?run=' || r.key AS trace
FROM v_approvals AS p LEFT JOIN scopes AS s ON s.name = p.scope
LEFT JOIN runs AS r ON r.scope = s.id AND r.run_id = p.run_id
ORDER BY p.asked_at_ns DESC LIMIT 200`}},
	{"used", datasetteQuery{"What runs used", "Tokens and dollars by run, no use twice.", `
SELECT u.run_id, coalesce(u.agent_id, u.session_id) AS agent, sum(u.input_tokens) AS input_tokens,
    sum(u.output_tokens) AS output_tokens, sum(u.cost_usd) AS cost_usd,
    coalesce(@'one_run?run=' || u.run, @'one_live_run?run=' || u.live_run) AS link
FROM v_usage AS u GROUP BY u.scope, u.run_id, agent ORDER BY cost_usd DESC, input_tokens DESC LIMIT 200`}},
}
