package live_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"selvedge/test/replay"
)

// A modelPlayer makes the calls on the model of the original, with a session layer in plain maps.
type modelPlayer struct {
	model   *replay.LiveModel
	kept    map[string][]*replay.LiveRun
	files   map[string]string
	current *string
	token   *bool // whether the last one put has fired
	present bool
	hooks   []any
	handles map[string][2]string // run, session
	marked  map[string]uint64
}

func newModelPlayer(on ...string) *modelPlayer {
	return &modelPlayer{
		model: replay.NewLiveModel(on...), kept: map[string][]*replay.LiveRun{}, files: map[string]string{},
		hooks: []any{}, handles: map[string][2]string{}, marked: map[string]uint64{},
	}
}

func (m *modelPlayer) play(c *replay.Call, created string, now uint64) replay.Outcome {
	value, err := m.call(c, created, now)
	if err != nil {
		return replay.Fails(err, "")
	}
	return replay.Outcome{OK: answered(value)}
}

func snapshot(r *replay.LiveRun) any {
	if r == nil {
		return nil
	}
	return r.Snapshot()
}

func (m *modelPlayer) call(c *replay.Call, created string, now uint64) (any, error) {
	run := c.Text("run_id")
	args, _ := c.Args.(map[string]any)
	switch c.Op {
	case "create_run":
		return snapshot(m.model.Create(created, c.Text("session_id"), c.Text("prompt"), now)), nil
	case "record_event":
		r, err := m.model.Record(run, args["event"], now)
		return snapshot(r), err
	case "mark_failed":
		return snapshot(m.model.Fail(run, c.Text("error"), now)), nil
	case "mark_cancelled":
		return snapshot(m.model.Cancel(run, now)), nil
	case "snapshot":
		return snapshot(m.model.Find(run)), nil
	case "events":
		return m.model.Find(run).EventList(), nil
	case "list":
		list := []any{}
		for _, r := range m.model.List() {
			list = append(list, r.Snapshot())
		}
		return list, nil
	case "records":
		records := m.model.Records()
		if c.Has("as") {
			m.kept[c.Text("as")] = records
		}
		return replay.RecordList(records), nil
	case "replace_records":
		records, known := m.kept[c.Text("records")]
		if !known {
			var err error
			if records, err = m.model.ReadRecords(args["records"]); err != nil {
				return nil, err
			}
		}
		m.model.Replace(records)
		return nil, nil
	case "concurrent_record":
		return m.concurrentRecord(c, now)
	case "mark_time":
		m.marked[run] = m.findOrNone(run).Updated
		return nil, nil
	case "time_moved":
		return m.findOrNone(run).Updated > m.marked[run], nil
	}
	if value, known := m.handle(c, now); known {
		return value, nil
	}
	return m.file(c)
}

func (m *modelPlayer) findOrNone(run string) *replay.LiveRun {
	return cmp.Or(m.model.Find(run), &replay.LiveRun{})
}

func (m *modelPlayer) concurrentRecord(c *replay.Call, now uint64) (any, error) {
	var tasks, each int
	if err := first(c.Unmarshal("tasks", &tasks), c.Unmarshal("each", &each)); err != nil {
		return nil, err
	}
	for i := range tasks * each {
		if _, err := m.model.Record(c.Text("run_id"), map[string]any{"type": "text_delta", "text": fmt.Sprint(i)},
			now); err != nil {
			return nil, err
		}
	}
	r := m.findOrNone(c.Text("run_id"))
	return map[string]any{
		"events": len(r.Events), "event_count": r.Count, "dense_sequences_in_list_order": true,
		"each_task_in_its_own_order":     true,
		"returned_event_counts_distinct": true, "returned_event_counts_grow_within_a_task": true,
	}, nil
}

func (m *modelPlayer) handle(c *replay.Call, now uint64) (value any, known bool) {
	h := m.handles[c.Text("handle")]
	r := m.model.Find(h[0])
	switch c.Op {
	case "handle_new":
		m.handles[c.Text("as")] = [2]string{c.Text("run_id"), c.Text("session_id")}
		return nil, true
	case "set_current":
		m.current = nil
		if c.Has("run_id") {
			run := c.Text("run_id")
			m.current = &run
		}
		return nil, true
	case "set_token":
		_ = c.Unmarshal("present", &m.present) // the store's player has seen that it is a flag
		m.token = nil
		if m.present {
			m.token = new(bool)
		}
		return nil, true
	case "token_cancelled":
		if m.token == nil {
			return nil, true
		}
		return *m.token, true
	case "hook_calls":
		calls := m.hooks
		m.hooks = []any{}
		return calls, true
	case "handle_id":
		return h[0], true
	case "handle_session_id":
		return h[1], true
	case "handle_snapshot":
		return snapshot(r), true
	case "handle_events":
		return r.EventList(), true
	case "handle_status":
		if r == nil {
			return nil, true
		}
		return r.Status, true
	case "handle_cancel":
		if m.current == nil || *m.current != h[0] || !m.present {
			return false, true
		}
		*m.token = true
		m.model.Cancel(h[0], now)
		m.hooks = append(m.hooks, map[string]any{"run_id": h[0], "session_id": h[1], "reason": "cancelled by host"})
		return true, true
	}
	return nil, false
}

func (m *modelPlayer) file(c *replay.Call) (any, error) {
	session := c.Text("session_id")
	file, document := "runs/"+safe(session)+".json", safe(session)+".json"
	switch c.Op {
	case "save":
		if strings.Contains(session, "\x00") {
			return nil, fmt.Errorf("no file can be called so")
		}
		text, err := json.MarshalIndent(replay.RecordList(m.model.Records()), "", "  ")
		m.files[file] = string(text)
		return nil, err
	case "load":
		records, there, err := m.load(file)
		if err != nil || !there {
			return nil, err
		}
		return replay.RecordList(records), nil
	case "restore", "reopen":
		if c.Op == "reopen" {
			if m.model.On(replay.DurableWithoutSave) || m.model.On(replay.Salvage) {
				if n := len(m.model.List()); n > 0 {
					return map[string]any{"restored": n}, nil
				}
			}
			m.model.Replace(nil)
		}
		records, there, err := m.load(file)
		if err != nil || !there {
			return map[string]any{"restored": nil}, err
		}
		m.model.Replace(records)
		return map[string]any{"restored": len(records)}, nil
	case "save_session":
		m.files[document] = "{}"
		return nil, nil
	case "session_exists":
		_, there := m.files[document]
		return there, nil
	case "delete_session":
		delete(m.files, file)
		delete(m.files, document)
		return nil, nil
	case "list_sessions":
		names := []any{}
		for _, path := range slices.Sorted(maps.Keys(m.files)) {
			if !strings.Contains(path, "/") {
				names = append(names, strings.TrimSuffix(path, ".json"))
			}
		}
		return names, nil
	case "put_file":
		m.files[c.Text("path")] = c.Text("text")
		return nil, nil
	case "cut_file":
		var keep int
		err := c.Unmarshal("keep_bytes", &keep)
		text := m.files[c.Text("path")]
		m.files[c.Text("path")] = text[:min(keep, len(text))]
		return nil, err
	case "files":
		paths := []string{"runs"}
		return append(paths, slices.Sorted(maps.Keys(m.files))...), nil
	}
	return nil, fmt.Errorf("the model doesn't know %s", c.Op)
}

// load reads a file as a whole, as the original does, or what a salvage finds in it.
func (m *modelPlayer) load(file string) ([]*replay.LiveRun, bool, error) {
	text, there := m.files[file]
	if !there {
		return nil, false, nil
	}
	value, err := strictly(text)
	if err == nil {
		var records []*replay.LiveRun
		if records, err = m.model.ReadRecords(value); err == nil {
			return records, true, nil
		}
	}
	if !m.model.On(replay.Salvage) {
		return nil, true, err
	}
	return m.salvage(text), true, nil
}

// salvage reads the elements of an array one by one, up to where it breaks off.
func (m *modelPlayer) salvage(text string) (records []*replay.LiveRun) {
	in := json.NewDecoder(strings.NewReader(text))
	if token, err := in.Token(); err != nil || token != json.Delim('[') {
		return nil
	}
	for in.More() {
		var raw json.RawMessage
		if in.Decode(&raw) != nil {
			break
		}
		value, err := strictly(string(raw))
		if err != nil {
			continue
		}
		if one, err := m.model.ReadRecords([]any{value}); err == nil {
			records = append(records, one...)
		}
	}
	return records
}

// strictly decodes JSON, and is as strict as the original where encoding/json is not.
func strictly(text string) (any, error) {
	value, err := replay.Decode([]byte(text))
	if err != nil {
		return nil, err
	}
	const lost = "\uFFFD" // what encoding/json makes of half a surrogate pair
	if strings.Contains(string(replay.Encode(value)), lost) && !strings.Contains(text, lost) {
		return nil, fmt.Errorf("there is half a surrogate pair")
	}
	return value, doubled(json.NewDecoder(strings.NewReader(text)))
}

// doubled reports an object that has a known member twice: decoding drops the first.
func doubled(in *json.Decoder) error {
	token, err := in.Token()
	if err != nil {
		return err
	}
	opened, isOpened := token.(json.Delim)
	if !isOpened {
		return nil
	}
	seen := map[string]bool{}
	for in.More() {
		if opened == '{' {
			name, err := in.Token()
			if err != nil {
				return err
			}
			member := name.(string)
			if seen[member] && slices.Contains(known, member) {
				return fmt.Errorf("the member %s is there twice", member)
			}
			seen[member] = true
		}
		if err := doubled(in); err != nil {
			return err
		}
	}
	_, err = in.Token()
	return err
}

// safe is the original's rule for the names of files.
func safe(id string) string {
	return strings.ReplaceAll(strings.NewReplacer("/", "_", `\`, "_").Replace(id), "..", "_")
}
