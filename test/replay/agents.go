package replay

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"selvedge/internal/chrono"
)

// Agents is a small model of the original's agent registry: a folder of entries, each under a
// name. Entries are decoded JSON with the members of the original. With Ours set it answers as
// Selvedge does on purpose: a builder that takes another's id is refused (rule 11), an
// undecodable entry has no owner (13), obstacles in the file system do not exist (17), and an
// entry has the id of its file (27).
type Agents struct {
	Ours bool
	// Alive reports whether a process with the pid of an entry runs.
	Alive func(pid any) bool
	// Boot is the id of the machine's start.
	Boot string
	// Canonical resolves a path; see find_active_by_path.
	Canonical func(path string) string
	// NullIsThere is set where the recording harness took null for a value that a member has to have:
	// there a match with null is met by no entry. Elsewhere a member that is missing is null.
	NullIsThere bool
	// Locked is set by the first call that takes the lock: the folder and the lock's file are there
	// from then on.
	Locked bool

	files map[string]agentFile
	// obstacle is the answer of every call that takes the lock; "" if there is no obstacle.
	obstacle string
	noFolder bool // a file is in the folder's place
}

type agentFile struct {
	entry  map[string]any
	bad    string // why it can't be read; then there is no entry
	folder bool   // a folder of that name is in its place
}

// errFolder is the original's answer if a folder has the name of an entry.
const errFolder = "io error: Is a directory (os error 21)"

// Folder puts a folder where a file would be.
func (m *Agents) Folder(name string) {
	if !m.Ours {
		m.put(name, agentFile{bad: errFolder, folder: true})
	}
}

// Write puts a file there: an entry, or, in bad, what is wrong with it.
func (m *Agents) Write(name string, entry map[string]any, bad string) {
	switch {
	case m.Ours && bad != "":
		delete(m.files, name)
		return
	case m.Ours:
		entry = maps.Clone(entry)
		entry["session_id"] = name
	}
	m.put(name, agentFile{entry: normal(entry), bad: bad})
}

// Remove takes a file away.
func (m *Agents) Remove(name string) { delete(m.files, name) }

// Obstruct makes every call that takes the lock fail with text; noFolder means that a file is in
// the folder's place.
func (m *Agents) Obstruct(text string, noFolder bool) {
	if !m.Ours {
		m.obstacle, m.noFolder = text, noFolder
	}
}

// Entry returns the entry in a file; nil if there is none, or none that can be read.
func (m *Agents) Entry(name string) map[string]any { return m.files[name].entry }

// Bad reports whether a file can't be read.
func (m *Agents) Bad(name string) bool { return m.files[name].bad != "" }

// Names are the names of the files of entries, in order.
func (m *Agents) Names() []string { return slices.Sorted(maps.Keys(m.files)) }

func (m *Agents) put(name string, f agentFile) {
	if m.files == nil {
		m.files = map[string]agentFile{}
	}
	m.files[name] = f
}

// Call answers a call; id is the one that was generated during it.
func (m *Agents) Call(c *Call, now time.Time, id string) Outcome {
	args, _ := c.Args.(map[string]any)
	if args == nil {
		args = map[string]any{}
	}
	s := agentCall{Agents: m, args: args, now: now, id: id}
	value, err := s.run(c.Op)
	if err != nil {
		return Fails(err, "")
	}
	return Outcome{OK: value}
}

type agentCall struct {
	*Agents
	args map[string]any
	now  time.Time
	id   string
}

func (s *agentCall) text(name string) string {
	text, _ := s.args[name].(string)
	return text
}

func (s *agentCall) object(name string) map[string]any {
	object, _ := s.args[name].(map[string]any)
	return object
}

func (s *agentCall) run(op string) (any, error) {
	session := s.text("session_id")
	locks := !strings.HasPrefix(op, "find_active") && op != "list" && op != "load" && op != "delete" &&
		op != "actor_chain_for_session" && op != "liveness_for"
	if locks {
		s.Locked = true
	}
	if locks && s.obstacle != "" {
		return nil, fmt.Errorf("configuration error: failed to acquire agent registry lock: %s", s.obstacle)
	}
	switch op {
	case "save":
		return nil, s.save(s.object("entry"))
	case "load":
		return s.load(session)
	case "list":
		return s.list()
	case "delete":
		err := checkAgentID(session)
		if err == nil && s.files[session].folder {
			err = errors.New(errFolder)
		}
		if err == nil {
			delete(s.files, session)
		}
		return nil, err
	case "update_status":
		if !slices.Contains(agentStatuses, s.text("status")) {
			return nil, fmt.Errorf("unknown variant `%s`", s.text("status"))
		}
		_, err := s.update(session, func(e map[string]any) {
			e["status"] = s.args["status"]
			delete(e, "completed_at")
			if e["status"] != "active" {
				e["completed_at"] = chrono.Format(s.now)
			}
		})
		return nil, err
	case "update_entry":
		e, err := s.update(session, func(e map[string]any) { set(e, s.object("set")) })
		if e == nil {
			return nil, err
		}
		return e, err
	case "log_context_query":
		_, err := s.update(session, func(e map[string]any) {
			if e["status"] == "active" {
				list, _ := e["context_queries"].([]any)
				e["context_queries"] = append(slices.Clone(list), s.args["query"])
			}
		})
		return nil, err
	case "reap_dead", "reap_dead_for_thread":
		return s.reap()
	case "try_reserve_thread":
		return s.reserve()
	case "create_generated_entry_for_thread":
		return s.reserveOrFail()
	case "create_generated_entry":
		return s.build()
	case "find_or_create_active_entry":
		return s.findOrCreate()
	case "liveness_for":
		return s.liveness(s.object("entry")), nil
	case "actor_chain_for_session":
		return s.chain(session)
	case "generated_id_shape":
		return map[string]any{"len": 26, "prefix": "agent-", "rest_in_a_z_2_7": true}, nil
	}
	if what, ok := strings.CutPrefix(op, "find_active_by_"); ok {
		return s.find(what)
	}
	return nil, fmt.Errorf("the model knows no %s", op)
}

// open returns the entry of a file; nil if there is none.
func (s *agentCall) open(id string) (map[string]any, error) {
	if err := checkAgentID(id); err != nil {
		return nil, err
	}
	f := s.files[id]
	if f.bad != "" {
		return nil, fmt.Errorf("%s", f.bad)
	}
	return f.entry, nil
}

func (s *agentCall) stale(e map[string]any) bool {
	if e == nil || e["status"] == "active" {
		return false
	}
	end, ok := e["completed_at"].(string)
	if !ok {
		end, _ = e["started_at"].(string)
	}
	at, _, err := chrono.Parse(end)
	return err == nil && !at.After(s.now.Add(-7*24*time.Hour))
}

func (s *agentCall) load(id string) (any, error) {
	e, err := s.open(id)
	switch {
	case err != nil || e == nil:
		return nil, err
	case s.stale(e):
		delete(s.files, id)
		return nil, nil
	}
	return e, nil
}

func (s *agentCall) save(e map[string]any) error {
	id := sessionOf(e)
	if err := checkAgentID(id); err != nil {
		return err
	}
	if err := s.checkLength(id); err != nil {
		return err
	}
	if s.files[id].folder {
		return errors.New(errFolder)
	}
	s.put(id, agentFile{entry: normal(e)})
	return nil
}

// entries returns the entries that list returns; stale ones are removed.
func (s *agentCall) entries() ([]map[string]any, error) {
	if s.noFolder {
		return nil, fmt.Errorf("io error: Not a directory (os error 20)")
	}
	var list []map[string]any
	for _, name := range s.Names() {
		f := s.files[name]
		switch {
		case f.bad != "":
		case s.stale(f.entry):
			delete(s.files, name)
		default:
			list = append(list, f.entry)
		}
	}
	slices.SortStableFunc(list, func(a, b map[string]any) int { return startOf(b).Compare(startOf(a)) })
	return list, nil
}

func startOf(e map[string]any) time.Time {
	text, _ := e["started_at"].(string)
	at, _, _ := chrono.Parse(text) // a time that can't be read sorts as none
	return at
}

func (s *agentCall) list() (any, error) {
	list, err := s.entries()
	answer := make([]any, len(list))
	for i, e := range list {
		answer[i] = e
	}
	return answer, err
}

func (s *agentCall) update(id string, change func(map[string]any)) (map[string]any, error) {
	e, err := s.open(id)
	if err != nil || e == nil {
		return nil, err
	}
	e = maps.Clone(e)
	change(e)
	e = normal(e)
	if err := s.save(e); err != nil {
		return nil, err
	}
	return e, nil
}

// liveness judges an entry.
func (m *Agents) liveness(e map[string]any) string {
	boot, hasBoot := e["boot_id"].(string)
	switch {
	case e["status"] != "active":
		return "dead"
	case e["pid"] == nil:
		return "unknown"
	case !m.Alive(e["pid"]), hasBoot && boot != m.Boot:
		return "dead"
	}
	return "alive"
}

// each visits the readable files by name; the original ends at the first that it can't read.
func (s *agentCall) each(visit func(name string, e map[string]any) (done bool)) error {
	for _, name := range s.Names() {
		f := s.files[name]
		if f.bad != "" {
			return fmt.Errorf("%s", f.bad)
		}
		if visit(name, f.entry) {
			return nil
		}
	}
	return nil
}

// abandon rewrites the file of the entry's own id.
func (s *agentCall) abandon(e map[string]any) {
	e = maps.Clone(e)
	e["status"], e["completed_at"] = "abandoned", chrono.Format(s.now)
	s.put(sessionOf(e), agentFile{entry: e})
}

func (s *agentCall) reap() (any, error) {
	reaped := 0
	thread, one := s.args["thread"]
	err := s.each(func(_ string, e map[string]any) bool {
		if e["status"] == "active" && (!one || e["thread"] == thread) && s.liveness(e) == "dead" {
			s.abandon(e)
			reaped++
		}
		return false
	})
	return reaped, err
}

// build adds the builder's entry; see the README beside the transcripts.
func (s *agentCall) build() (map[string]any, error) {
	recipe := s.object("build")
	if text, fails := recipe["$fail"].(string); fails {
		return nil, fmt.Errorf("configuration error: %s", text)
	}
	e := map[string]any{
		"session_id": s.id, "thread": "t/default", "base_state": "hd-base", "started_at": chrono.Format(s.now),
		"status": "active",
	}
	set(e, Aliases{"$id": s.id}.replace(recipe, Comparison{}).(map[string]any))
	if _, taken := s.files[sessionOf(e)]; taken && s.Ours {
		return nil, fmt.Errorf("the new entry took the session ID '%s' of another agent", sessionOf(e))
	}
	e = normal(e)
	return e, s.save(e)
}

func (s *agentCall) reserve() (any, error) {
	var owner map[string]any
	err := s.each(func(name string, e map[string]any) bool {
		switch {
		case s.stale(e):
			delete(s.files, name)
		case e["status"] != "active" || e["thread"] != s.args["thread"]:
		case s.liveness(e) == "dead":
			s.abandon(e)
		default:
			owner = e
		}
		return owner != nil
	})
	if err != nil {
		return nil, err
	}
	if owner != nil {
		if s.Ours { // which puts all stale entries aside, also those behind the owner
			_, err = s.entries()
		}
		return map[string]any{"live_owner": owner}, err
	}
	e, err := s.build()
	return map[string]any{"reserved": e}, err
}

func (s *agentCall) reserveOrFail() (any, error) {
	answer, err := s.reserve()
	if err != nil {
		return nil, err
	}
	out := answer.(map[string]any)
	if owner, ok := out["live_owner"].(map[string]any); ok {
		return nil, fmt.Errorf("configuration error: thread '%[1]s' already has active reservation %[2]s. Use "+
			"`heddle thread show %[1]s` "+
			"to inspect it, or release the session before starting another writer.", s.text("thread"),
			sessionOf(owner))
	}
	return out["reserved"], nil
}

func (s *agentCall) findOrCreate() (any, error) {
	match := s.object("match")
	field, _ := match["field"].(string)
	var found map[string]any
	err := s.each(func(name string, e map[string]any) bool {
		if s.stale(e) {
			delete(s.files, name)
		} else if e["status"] == "active" && (!s.NullIsThere || e[field] != nil) &&
			reflect.DeepEqual(e[field], match["equals"]) {
			found = e
		}
		return found != nil
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		e, err := s.build()
		return map[string]any{"entry": e, "created": true}, err
	}
	if s.Ours {
		if _, err := s.entries(); err != nil {
			return nil, err
		}
	}
	e := maps.Clone(found)
	set(e, s.object("update"))
	e = normal(e)
	return map[string]any{"entry": e, "created": false}, s.save(e)
}

func (s *agentCall) find(what string) (any, error) {
	list, err := s.entries()
	if err != nil {
		return nil, err
	}
	root := s.Canonical(s.text("worktree_root"))
	atRoot := func(e map[string]any) bool {
		path, ok := e["path"].(string)
		return ok && s.Canonical(path) == root
	}
	for _, e := range list {
		matches := e["status"] == "active"
		switch what {
		case "path":
			matches = matches && atRoot(e)
		case "native_instance_key_at_path":
			matches = matches && e["native_instance_key"] == s.args["native_instance_key"] && atRoot(e)
		default:
			matches = matches && e[what] != nil && e[what] == s.args[what]
		}
		if matches {
			return e, nil
		}
	}
	return nil, nil
}

func (s *agentCall) chain(id string) (any, error) {
	list, err := s.entries()
	if err != nil {
		return nil, err
	}
	bySession, byKey := map[any]map[string]any{}, map[any]map[string]any{}
	for _, e := range list {
		bySession[e["session_id"]] = e
		if key := e["native_actor_key"]; key != nil {
			byKey[key] = e // the last one stays: the oldest
		}
	}
	nodes, seen := []any{}, map[any]bool{}
	for e := bySession[id]; e != nil && !seen[e["session_id"]]; e = byKey[e["native_parent_actor_key"]] {
		seen[e["session_id"]] = true
		node := map[string]any{}
		for _, name := range []string{
			"session_id", "native_actor_key", "native_parent_actor_key", "thread",
			"status", "provider", "model", "harness",
		} {
			if e[name] != nil {
				node[name] = e[name]
			}
		}
		nodes = append(nodes, node)
		if e["native_parent_actor_key"] == nil {
			break
		}
	}
	slices.Reverse(nodes)
	return nodes, nil
}
