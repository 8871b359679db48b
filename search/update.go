package search

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/runs"
)

// A source is a store whose things are indexed.
type source struct {
	store string
	// table is that of the stream that tells which things were touched; "" if there is none.
	table string
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
		"runs", "runs", `SELECT r.key, s.name AS scope, r.agent_id AS owner, r.run_id AS name,
	coalesce(r.turn_count + r.others, (SELECT max(t.id) & 16777215 FROM run_records AS t
		WHERE t.id > r.key << 24 AND t.id < (r.key + 1) << 24), 0) AS seen
FROM runs AS r JOIN scopes AS s ON s.id = r.scope WHERE r.key > ? ORDER BY r.key LIMIT ?`, true, ofRun,
	},
	{ // a mark changes the texts and adds no event
		"live", "live_runs", `SELECT r.key, s.name AS scope, r.session_id AS owner, r.run_id AS name,
	r.updated_at - r.event_count AS seen
FROM live_runs AS r JOIN scopes AS s ON s.id = r.scope WHERE r.key > ? ORDER BY r.key LIMIT ?`, false, ofLive,
	},
	{
		"checkpoints", "checkpoints", `SELECT c.id AS key, s.name AS scope, coalesce(c.agent_id, '') AS owner,
	c.run_id AS name, c.saved_at AS seen
FROM checkpoints AS c JOIN scopes AS s ON s.id = c.scope WHERE c.id > ? ORDER BY c.id LIMIT ?`,
		false, ofCheckpoint,
	},
	{
		"workers", "", `SELECT w.key, s.name AS scope, r.runtime_id AS owner, w.worker_id AS name,
	w.transcript_len AS seen
FROM workers AS w JOIN worker_runtimes AS r ON r.key = w.runtime JOIN scopes AS s ON s.id = r.scope
WHERE w.key > ? ORDER BY w.key LIMIT ?`, true, ofWorker,
	},
}

const (
	headGroup = 2000    // things compared at once
	textGroup = 512     // texts written in a transaction, about
	mostText  = 1 << 20 // bytes of one text
	mostNamed = 200     // touched things looked at one by one
)

// Update brings the index up to what the database holds. It compares how much of each thing is indexed with
// how much there is, and reads what is new. It reads in short transactions. What it did before an error
// stays done.
//
// From its third update on, an index looks only at what commits touched since the one before. It learns of
// commits of other processes within milliseconds.
func (x *Index) Update(ctx context.Context) (err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.updates++; x.updates == 2 { // what is updated once need not follow
		x.follow()
	}
	err = x.look(ctx)
	changed := false
	for i := 0; err == nil && i < len(sources); i++ {
		keys, all := x.taken(i)
		if !all && len(keys) == 0 {
			continue
		}
		changed, x.isOwed[i] = true, true
		if all || len(keys) > mostNamed {
			err = x.update(ctx, sources[i])
		} else {
			err = x.updateKeys(ctx, sources[i], keys)
		}
		x.isOwed[i] = err != nil
	}
	if err == nil && changed {
		err = x.at.clean(ctx)
	}
	return db.About(err, updates, "", "", nil)
}

const updates = "update search index"

// follow joins the feeds of the sources. Without them, all is compared.
func (x *Index) follow() {
	within, stop := context.WithCancel(context.Background())
	var feeds []*engine.Feed
	for _, s := range sources {
		stream, _, _ := engine.StreamOf(s.table)
		feed, err := x.db.Store().Engine.Watch(within, stream)
		if err != nil {
			stop()
			return
		}
		feeds = append(feeds, feed)
	}
	x.feeds, x.stop, x.made = feeds, stop, ""
}

// look notices an index that was made anew, here or by another process, and has nothing.
func (x *Index) look(ctx context.Context) error {
	var made []string
	err := x.at.read(ctx, func(t selects) error {
		made = nil
		return t.Select(&made, `SELECT value FROM index.settings WHERE name = 'made'`)
	})
	if err != nil || len(made) == 1 && made[0] == x.made {
		return err
	}
	for i := range x.isOwed {
		x.isOwed[i] = true
	}
	if len(made) == 1 {
		x.made = made[0]
	}
	return nil
}

// taken returns the keys of a source's things that were touched since the last call. all: it is not known
// which.
func (x *Index) taken(i int) (keys []int64, all bool) {
	if x.feeds == nil {
		return nil, true
	}
	keys, all = x.feeds[i].Take()
	return keys, all || x.isOwed[i]
}

func (x *Index) updateKeys(ctx context.Context, s source, keys []int64) error {
	for _, key := range keys {
		var heads []head
		err := x.db.Read(ctx, looks, func(rx *db.Rx) error {
			heads = nil
			return rx.Select(&heads, s.heads, key-1, 1)
		})
		if len(heads) > 0 && heads[0].Key != key { // it is gone
			heads = nil
		}
		if err == nil {
			err = x.compare(ctx, s, heads, key-1, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const looks = "look for what is new"

func (x *Index) update(ctx context.Context, s source) error {
	for after := int64(0); ; {
		var heads []head
		err := x.db.Read(ctx, looks, func(rx *db.Rx) error {
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
		if err := x.compare(ctx, s, heads, after, upTo); err != nil {
			return err
		}
		if after = upTo; upTo == math.MaxInt64 {
			return nil
		}
	}
}

// A change is a thing that is not indexed as it is.
type change struct {
	head
	was   *head  // as it is indexed; nil: it is not
	texts []text // that are new
	seen  int64  // with these
	anew  bool   // without what is indexed
	more  bool   // there are more texts
}

// compare indexes what is new of things with keys after one, up to another, and forgets things that are gone.
func (x *Index) compare(ctx context.Context, s source, heads []head, after, upTo int64) error {
	var known []head
	err := x.at.read(ctx, func(t selects) error {
		known = nil
		return t.Select(&known, `SELECT key, seen, scope, owner, name FROM index.heads
	WHERE store = ? AND key > ? AND key <= ?`, s.store, after, upTo)
	})
	if err != nil {
		return err
	}
	was := map[int64]*head{}
	for i := range known {
		was[known[i].Key] = &known[i]
	}
	var changes []change
	for _, h := range heads {
		before := was[h.Key]
		delete(was, h.Key)
		if !slices.Contains(x.o.Without, h.Owner) && (before == nil || *before != h) {
			changes = append(changes, change{head: h, was: before})
		}
	}
	for len(changes) > 0 || len(was) > 0 {
		read, err := x.readTexts(ctx, s, changes)
		if err == nil {
			err = x.at.write(ctx, updates, func(t tables) error {
				for key := range was {
					if err := x.forget(t, s.store, key); err != nil {
						return err
					}
				}
				var last []int64 // number of the last text
				if err := t.Select(&last, `SELECT coalesce(max(id), 0) FROM index.texts`); err != nil {
					return err
				}
				for i := range changes[:read] {
					if err := x.index(t, &last[0], s, &changes[i]); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
		if last := read - 1; last >= 0 && changes[last].more {
			done := changes[last].head
			done.Seen = changes[last].seen
			changes[last] = change{head: changes[last].head, was: &done}
			read = last
		}
		changes, was = changes[read:], nil
	}
	return nil
}

// readTexts reads what is new of the first things of a list, until there are enough texts for a transaction.
// It returns how many things it has read.
func (x *Index) readTexts(ctx context.Context, s source, changes []change) (read int, err error) {
	for texts := 0; read < len(changes) && texts < textGroup; read++ {
		c := &changes[read]
		from := c.head
		from.Seen = 0
		if c.was != nil {
			if c.anew = !s.grows || c.was.Seen > c.Seen || c.was.Name != c.Name; !c.anew {
				from.Seen = c.was.Seen
			}
		}
		err := x.db.Read(ctx, "read texts", func(rx *db.Rx) (err error) {
			c.texts = nil
			c.seen, err = s.texts(rx, from, x.o.Output, func(t text) { c.texts = append(c.texts, t) })
			return err
		})
		if err != nil {
			return read, err
		}
		texts += len(c.texts)
		if c.more = s.grows && c.seen > from.Seen && c.seen < c.Seen; c.more {
			return read + 1, nil
		}
	}
	return read, nil
}

// index writes what is new of a thing, unless another process indexed it meanwhile.
func (x *Index) index(t tables, last *int64, s source, c *change) error {
	var is []head
	if err := t.Select(&is, `SELECT key, seen, scope, owner, name FROM index.heads WHERE store = ? AND key = ?`,
		s.store, c.Key); err != nil {
		return err
	}
	if len(is) > 0 != (c.was != nil) || len(is) > 0 && is[0] != *c.was {
		return nil
	}
	if c.anew {
		if err := x.forget(t, s.store, c.Key); err != nil {
			return err
		}
	}
	for _, text := range c.texts {
		if err := x.put(t, last, s.store, c.Key, text); err != nil {
			return err
		}
	}
	_, err := t.Exec(`INSERT INTO index.heads (store, key, seen, scope, owner, name) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (store, key) DO UPDATE SET seen = excluded.seen, scope = excluded.scope, owner = excluded.owner,
	name = excluded.name`, s.store, c.Key, c.seen, c.Scope, c.Owner, c.Name)
	return err
}

// put writes a text under the number after the last one.
func (x *Index) put(t tables, last *int64, store string, key int64, text text) error {
	words := strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(text.words[:min(len(text.words),
		mostText)], "\x00", " "), " "))
	if words == "" {
		return nil
	}
	*last++
	_, err := t.Exec(`INSERT INTO index.texts (id, store, key, place, kind, at) VALUES (?, ?, ?, ?, ?, ?)`,
		*last, store, key, text.place, text.kind, text.at)
	if err == nil {
		err = x.words.put(t, *last, words)
	}
	return err
}

func (x *Index) forget(t tables, store string, key int64) error {
	for _, query := range []string{
		x.words.forget, `DELETE FROM index.texts WHERE store = ? AND key = ?`,
		`DELETE FROM index.heads WHERE store = ? AND key = ?`,
	} {
		if _, err := t.Exec(query, store, key); err != nil {
			return err
		}
	}
	return nil
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
		Seen   int64   `db:"seen"`
	}
	found, err := rx.Find(&whole, `SELECT t.prompt, t.result_text, t.error, r.updated_at,
		r.updated_at - r.event_count AS seen
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
			return whole.Seen, err
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
