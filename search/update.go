package search

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"selvedge/db"
	"selvedge/runs"
)

// A source is a store whose things are indexed.
type source struct {
	store string
	// heads selects key, scope, owner, name and seen of the things after a key. What is seen grows, or only
	// differs.
	heads string
	grows bool
	texts func(rx *db.Rx, h head, output bool, add func(text)) (seen int64, err error)
}

type head struct {
	Key   int64  `db:"key"`
	Scope string `db:"scope"`
	Owner string `db:"owner"`
	Name  string `db:"name"`
	Seen  int64  `db:"seen"`
}

// A text is one document of the index.
type text struct {
	place int64
	kind  string
	at    *int64 // Unix nanoseconds; nil: unknown
	words string
}

var sources = []source{
	{
		"runs", `SELECT r.key, s.name AS scope, r.agent_id AS owner, r.run_id AS name,
	coalesce(r.turn_count + r.others, (SELECT max(t.id) & 16777215 FROM run_records AS t
		WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24), 0) AS seen
FROM runs AS r JOIN scopes AS s ON s.id = r.scope WHERE r.key > ? ORDER BY r.key LIMIT ?`, true, ofRun,
	},
	{
		"live", `SELECT r.key, s.name AS scope, r.session_id AS owner, r.run_id AS name, r.event_count AS seen
FROM live_runs AS r JOIN scopes AS s ON s.id = r.scope WHERE r.key > ? ORDER BY r.key LIMIT ?`, false, ofLive,
	},
	{
		"checkpoints", `SELECT c.id AS key, s.name AS scope, coalesce(c.agent_id, '') AS owner, c.run_id AS name,
	c.saved_at AS seen
FROM checkpoints AS c JOIN scopes AS s ON s.id = c.scope WHERE c.id > ? ORDER BY c.id LIMIT ?`,
		false, ofCheckpoint,
	},
	{
		"workers", `SELECT w.key, s.name AS scope, r.runtime_id AS owner, w.worker_id AS name,
	w.transcript_len AS seen
FROM workers AS w JOIN worker_runtimes AS r ON r.key = w.runtime JOIN scopes AS s ON s.id = r.scope
WHERE w.key > ? ORDER BY w.key LIMIT ?`, true, ofWorker,
	},
}

const (
	headGroup = 2000    // things compared at once
	textGroup = 512     // texts written in a transaction, about
	mostText  = 1 << 20 // bytes of one text
)

// Update brings the index up to what the database holds. It compares how much of each thing is indexed with
// how much there is, and reads what is new. It reads in short transactions. What it did before an error
// stays done.
func (x *Index) Update(ctx context.Context) error {
	pool, err := x.current(ctx)
	for i := 0; err == nil && i < len(sources); i++ {
		err = x.update(ctx, pool, sources[i])
	}
	if err == nil { // so that nothing of what was deleted stays in the WAL
		_, err = pool.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	}
	return db.About(err, "update search index", "", "", nil)
}

func (x *Index) update(ctx context.Context, pool *sqlx.DB, s source) error {
	for after := int64(0); ; {
		var heads []head
		err := x.db.Read(ctx, "look for what is new", func(rx *db.Rx) error {
			heads = nil
			return rx.Select(&heads, s.heads, after, headGroup)
		})
		if err != nil {
			return err
		}
		upTo := int64(math.MaxInt64)
		if len(heads) == headGroup {
			upTo = heads[len(heads)-1].Key
		}
		if err := x.compare(ctx, pool, s, heads, after, upTo); err != nil {
			return fmt.Errorf("%w: %w", db.ErrIO, err)
		}
		if after = upTo; upTo == math.MaxInt64 {
			return nil
		}
	}
}

// compare indexes what is new of things with keys after one, up to another, and forgets things that are gone.
func (x *Index) compare(ctx context.Context, pool *sqlx.DB, s source, heads []head, after, upTo int64) error {
	var known []head
	if err := pool.SelectContext(ctx, &known, `SELECT key, seen, scope, owner, name FROM heads
		WHERE store = ? AND key > ? AND key <= ?`, s.store, after, upTo); err != nil {
		return err
	}
	was := map[int64]head{}
	for _, h := range known {
		was[h.Key] = h
	}
	var changed []head
	for _, h := range heads {
		before, indexed := was[h.Key]
		delete(was, h.Key)
		if !slices.Contains(x.o.Without, h.Owner) && (!indexed || before != h) {
			changed = append(changed, h)
		}
	}
	for len(changed) > 0 || len(was) > 0 {
		done := 0
		err := write(ctx, pool, func(tx *sqlx.Tx) (err error) {
			for key := range was {
				if err := forget(ctx, tx, s.store, key); err != nil {
					return err
				}
			}
			done, err = x.index(ctx, tx, s, changed)
			return err
		})
		if err != nil {
			return err
		}
		changed, was = changed[done:], nil
	}
	return nil
}

// index indexes the first things of a list, until there are enough texts for a transaction.
func (x *Index) index(ctx context.Context, tx *sqlx.Tx, s source, list []head) (done int, err error) {
	texts := 0
	for _, h := range list {
		var before []head
		if err := tx.SelectContext(ctx, &before, `SELECT key, seen, scope, owner, name FROM heads
			WHERE store = ? AND key = ?`, s.store, h.Key); err != nil {
			return done, err
		}
		from := h
		from.Seen = 0
		if len(before) > 0 {
			if s.grows && before[0].Seen <= h.Seen && before[0].Name == h.Name {
				from.Seen = before[0].Seen
			} else if err := forget(ctx, tx, s.store, h.Key); err != nil {
				return done, err
			}
		}
		for more := true; more; {
			var found []text
			err := x.db.Read(ctx, "read texts", func(rx *db.Rx) (err error) {
				found = nil
				h.Seen, err = s.texts(rx, from, x.o.Output, func(t text) { found = append(found, t) })
				return err
			})
			if err != nil {
				return done, err
			}
			for _, t := range found {
				if err := put(ctx, tx, s.store, h.Key, t); err != nil {
					return done, err
				}
			}
			texts += len(found)
			more = s.grows && h.Seen > from.Seen
			from.Seen = h.Seen
		}
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO heads (store, key, seen, scope, owner, name)
			VALUES (?, ?, ?, ?, ?, ?)`, s.store, h.Key, h.Seen, h.Scope, h.Owner, h.Name); err != nil {
			return done, err
		}
		done++
		if texts >= textGroup {
			break
		}
	}
	return done, nil
}

func put(ctx context.Context, tx *sqlx.Tx, store string, key int64, t text) error {
	t.words = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(t.words[:min(len(t.words),
		mostText)], "\x00", " "),
		" "))
	if t.words == "" {
		return nil
	}
	added, err := tx.ExecContext(ctx, `INSERT INTO texts (store, key, place, kind, at) VALUES (?, ?, ?, ?, ?)`,
		store, key, t.place, t.kind, t.at)
	if err != nil {
		return err
	}
	id, err := added.LastInsertId()
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO words (rowid, text) VALUES (?, ?)`, id, t.words)
	}
	return err
}

func forget(ctx context.Context, tx *sqlx.Tx, store string, key int64) error {
	for _, query := range []string{
		`DELETE FROM words WHERE rowid IN (SELECT id FROM texts WHERE store = ? AND key = ?)`,
		`DELETE FROM texts WHERE store = ? AND key = ?`, `DELETE FROM heads WHERE store = ? AND key = ?`,
	} {
		if _, err := tx.ExecContext(ctx, query, store, key); err != nil {
			return err
		}
	}
	return nil
}

func write(ctx context.Context, pool *sqlx.DB, fn func(tx *sqlx.Tx) error) error {
	tx, err := pool.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback() // err says what happened
		return err
	}
	return tx.Commit()
}

func ofRun(rx *db.Rx, h head, output bool, add func(text)) (int64, error) {
	const most = 2000 // records at once
	var rows []struct {
		Place      int64   `db:"place"`
		Kind       string  `db:"kind"`
		Prompt     *string `db:"prompt"`
		Tool       *string `db:"tool"`
		Parameters []byte  `db:"parameters"`
		Output     []byte  `db:"output"`
		Raw        []byte  `db:"raw"`
		At         *int64  `db:"recorded_at"`
	}
	from, to := h.Key<<24+h.Seen, (h.Key+1)<<24
	err := rx.Select(&rows, `SELECT id & 16777215 AS place, coalesce(unknown_kind, kind) AS kind, prompt, tool,
	parameters, output, raw,
		recorded_at FROM run_records WHERE id > ? AND id < ? ORDER BY id LIMIT ?`, from, to, most)
	seen := h.Seen
	for _, r := range rows {
		seen = r.Place
		if r.Kind != "turn" {
			add(text{r.Place, r.Kind, r.At, said(r.Raw)})
			continue
		}
		add(text{r.Place, r.Kind, r.At, or(r.Prompt) + "\n" + or(r.Tool) + "\n" + texts(r.Parameters, true)})
		if output {
			add(text{r.Place, "output", r.At, texts(r.Output, true)})
		}
	}
	return seen, err
}

// said returns what a record that is no turn says, without its names, times and counts.
func said(line []byte) string {
	record, err := runs.ParseRecord(line)
	if err != nil {
		return string(line) // an imported line that is no record
	}
	switch record := record.(type) {
	case runs.Started:
		return record.Intent + "\n" + or(record.OutcomeDescription)
	case runs.Ended:
		if record.Termination.Outcome == nil {
			return ""
		}
		return record.Termination.Outcome.Summary
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return string(line)
	}
	delete(members, "record")
	delete(members, "recorded_at")
	rest, _ := json.Marshal(members) // of what was JSON
	return texts(rest, false)
}

func ofLive(rx *db.Rx, h head, output bool, add func(text)) (int64, error) {
	var whole struct {
		Prompt string  `db:"prompt"`
		Result *string `db:"result_text"`
		Error  *string `db:"error"`
		At     *int64  `db:"updated_at"`
		Count  int64   `db:"event_count"`
	}
	found, err := rx.Find(&whole, `SELECT t.prompt, t.result_text, t.error, r.updated_at, r.event_count
	FROM live_runs AS r JOIN live_texts AS t ON t.run = r.key WHERE r.key = ?`, h.Key)
	if err != nil || !found {
		return 0, err
	}
	add(text{0, "live", whole.At, whole.Prompt + "\n" + or(whole.Result) + "\n" + or(whole.Error)})
	var joined strings.Builder // pieces of text, as they were said
	from, to := h.Key<<32, (h.Key+1)<<32
	for {
		var rows []struct {
			ID    int64  `db:"id"`
			Type  string `db:"type"`
			Event []byte `db:"event"`
		}
		err := rx.Select(&rows, `SELECT id, type, event FROM live_events WHERE id > ? AND id < ?
			AND type IN ('text_delta', 'reasoning_delta', 'error', 'confirmation_required',
				'tool_output_delta', 'tool_end')
			ORDER BY id LIMIT 1000`, from-1, to)
		if err != nil || len(rows) == 0 {
			add(text{0, "said", whole.At, joined.String()})
			return whole.Count, err
		}
		for _, r := range rows {
			from = r.ID + 1
			if isOutput := r.Type == "tool_output_delta" || r.Type == "tool_end"; isOutput && !output {
				continue
			}
			var event map[string]json.RawMessage
			if json.Unmarshal(r.Event, &event) != nil {
				continue
			}
			delete(event, "type")
			words, _ := json.Marshal(event) // of what was JSON
			if raw, ok := event["text"]; ok {
				words = raw
			} else if raw, ok := event["delta"]; ok {
				words = raw
			}
			joined.WriteString(texts(words, true))
			if r.Type != "text_delta" && r.Type != "reasoning_delta" && r.Type != "tool_output_delta" {
				joined.WriteByte('\n')
			}
			if joined.Len() > mostText/2 {
				add(text{0, "said", whole.At, joined.String()})
				joined.Reset()
			}
		}
	}
}

func ofCheckpoint(rx *db.Rx, h head, _ bool, add func(text)) (int64, error) {
	var c struct {
		Prompt   *string `db:"prompt"`
		Document []byte  `db:"document"`
		SavedAt  int64   `db:"saved_at"`
	}
	found, err := rx.Find(&c, `SELECT c.prompt, d.document, c.saved_at FROM checkpoints AS c
	JOIN checkpoint_documents AS d ON d.checkpoint = c.id WHERE c.id = ?`, h.Key)
	if found {
		add(text{0, "checkpoint", &c.SavedAt, or(c.Prompt) + "\n" + texts(c.Document, true)})
	}
	return c.SavedAt, err
}

func ofWorker(rx *db.Rx, h head, _ bool, add func(text)) (int64, error) {
	const most = 2000
	var rows []struct {
		Place   int64  `db:"place"`
		Role    string `db:"role"`
		Content []byte `db:"content"`
		At      *int64 `db:"recorded_at"`
	}
	err := rx.Select(&rows, `SELECT id & 16777215 AS place, role, content, recorded_at FROM worker_entries
	WHERE id > ? AND id < ? ORDER BY id LIMIT ?`, h.Key<<24+h.Seen, (h.Key+1)<<24, most)
	seen := h.Seen
	for _, r := range rows {
		seen = r.Place
		add(text{r.Place, r.Role, r.At, string(r.Content)})
	}
	return seen, err
}

// texts returns the strings of a JSON text, and its numbers if they are wanted, or the text itself if it is
// none.
func texts(raw []byte, numbers bool) string {
	if len(raw) == 0 {
		return ""
	}
	var out strings.Builder
	in := json.NewDecoder(strings.NewReader(string(raw)))
	in.UseNumber()
	type level struct{ object, key bool } // what is open, and whether a key comes next
	var open []level
	for {
		token, err := in.Token()
		if err != nil {
			if out.Len() == 0 && len(open) == 0 {
				return string(raw)
			}
			return strings.TrimSuffix(out.String(), "\n")
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			open = append(open, level{token == json.Delim('{'), true})
			continue
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
		}
		top := len(open) - 1
		if top >= 0 && open[top].object && open[top].key {
			if _, isKey := token.(string); isKey {
				open[top].key = false
				continue
			}
		}
		if top >= 0 {
			open[top].key = true
		}
		switch token := token.(type) {
		case string:
			out.WriteString(token + "\n")
		case json.Number:
			if !numbers {
				continue
			}
			out.WriteString(token.String() + "\n")
		}
	}
}

func or(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
