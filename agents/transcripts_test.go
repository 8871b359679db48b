package agents_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

var sameValues = replay.Comparison{NullIsAbsent: true}

func TestTranscripts(t *testing.T) {
	list, err := replay.Transcripts("agents")
	if err != nil {
		t.Fatal(err)
	}
	var tally replay.Tally
	for _, transcript := range list {
		t.Run(transcript.Name, func(t *testing.T) {
			counted, err := replay.Play(transcript, newPlayer(t).of(transcript), sameValues)
			if err != nil {
				t.Error(err)
			}
			tally.Add(counted)
		})
	}
	t.Log(tally)
}

func TestTheReplayNoticesFalsifiedAnswers(t *testing.T) {
	list, err := replay.Transcripts("agents")
	if err != nil {
		t.Fatal(err)
	}
	for _, transcript := range list {
		if strings.HasPrefix(transcript.Base(), "random") && !strings.HasSuffix(transcript.Base(), "0") {
			continue // one of them says it all
		}
		t.Run(transcript.Name, func(t *testing.T) {
			if _, err := replay.PlayFalsified(transcript, newPlayer(t).of(transcript), sameValues); err != nil {
				t.Error(err)
			}
		})
	}
}

// A player plays one transcript on a registry, and on two models beside it: the original as it is,
// and with the differences that are on purpose. Where these two differ the registry must answer as
// the second, by the rule that caused it.
type player struct {
	t        *testing.T
	clock    *dbtest.Clock
	db       *db.DB
	registry *agents.Registry
	tree     *scratch

	original, ours replay.Agents
	cause          int               // the rule that made the models differ last
	names          map[string]string // aliases of generated ids
	generated      string            // the id that the builder got in this call
	given          string            // what it takes instead; "": nothing
}

func newPlayer(t *testing.T) *player {
	p := &player{t: t, clock: dbtest.NewClock(time.Unix(0, 0)), names: map[string]string{}, cause: 24}
	for _, m := range []*replay.Agents{&p.original, &p.ours} {
		*m = replay.Agents{Alive: pidAlive, Boot: "$boot", Canonical: p.canonical}
	}
	p.ours.Ours = true
	p.tree = newScratch(p)
	p.open(dbtest.Path(t))
	return p
}

// of knows which program recorded a transcript; see testdata/legacy/agents/README.md.
func (p *player) of(t replay.Transcript) *player {
	made := strings.Contains(t.Name, "transcripts-made/")
	p.original.NullIsThere, p.ours.NullIsThere = made, made
	return p
}

func (p *player) open(path string) {
	if p.db != nil {
		if err := p.db.Close(); err != nil {
			p.t.Fatal(err)
		}
	}
	p.db = dbtest.OpenAt(p.t, path, db.Options{Now: p.clock.Now, Synchronous: db.SyncNormal})
	p.registry = agents.NewRegistry(p.db, agents.Options{})
}

// pidAlive knows this process by the transcripts' spelling of it.
func pidAlive(pid any) bool {
	n, ok := pid.(json.Number)
	if !ok {
		return pid != nil
	}
	number, err := n.Int64()
	return err == nil && number > 0 && number <= math.MaxInt32 && unix.Kill(int(number), 0) != unix.ESRCH
}

// canonical resolves a path of the transcript as the original does, in the transcript's spelling.
func (p *player) canonical(path string) string {
	real := strings.ReplaceAll(path, "$root", p.tree.root)
	if real == "" {
		return "" // is nowhere, while EvalSymlinks takes it for "."
	}
	resolved, err := filepath.EvalSymlinks(real)
	if err != nil { // it is not there: paths are compared by component
		parts := strings.Split(real, "/")
		rest := slices.DeleteFunc(parts[1:], func(part string) bool { return part == "" || part == "." })
		resolved = strings.Join(append(parts[:1], rest...), "/")
	}
	return strings.ReplaceAll(resolved, p.tree.root, "$root")
}

func (p *player) Play(c *replay.Call) replay.Answer {
	now, _, err := chrono.Parse(c.Now)
	if err != nil {
		p.t.Fatalf("line %d: now is %q", c.Line, c.Now)
	}
	p.clock.Set(now)
	p.generated = ""
	if strings.HasPrefix(c.Op, "fs_") {
		return p.tree.play(c)
	}
	if c.Op == "clock_advance" {
		return replay.Answer{}
	}
	if c.Op == "reopen" {
		p.open(p.db.Path())
		return replay.Answer{}
	}
	var answer replay.Answer
	value, err := p.call(c)
	if err != nil {
		answer.Outcome = replay.Fails(err, "")
	} else {
		answer.OK = p.spelled(value)
	}
	made := p.generated
	if made == "" && c.Binds != "" {
		made = "unbound-" + strings.TrimPrefix(c.Binds, "$") // an id that only the original generated
	}
	if c.Binds != "" {
		answer.Bound = made
		p.names[c.Binds] = made
	}
	p.judge(c, &answer, now, made, errors.As(err, new(unreadable)))
	return answer
}

// unreadable are arguments that are no entry and so on: as with the original, such a call does not
// reach the registry.
type unreadable struct{ error }

// judge lets the models answer too.
func (p *player) judge(c *replay.Call, answer *replay.Answer, now time.Time, made string, unread bool) {
	original, ours := answer.Outcome, answer.Outcome
	if !unread {
		original, ours = p.original.Call(c, now, made), p.ours.Call(c, now, p.generated)
	}
	for _, o := range []*replay.Outcome{&original, &ours, &answer.Outcome} {
		if list, ok := decoded(p.t, o.OK).([]any); ok && c.Op == "list" {
			o.OK = replay.TiesAs(list, c.Want.OK, p.names)
		}
	}
	switch {
	case ours.Err != nil && strings.Contains(*ours.Err, "of another agent"):
		p.cause = 11
	case ours.Err == nil && original.Err != nil && strings.Contains(*original.Err, "File name too long"):
		p.cause = 16
	}
	answer.Model = &original
	if differ(p.t, original, ours) {
		answer.Rule, answer.Instead = p.cause, &ours
	}
	switch {
	case differ(p.t, ours, answer.Outcome):
		answer.Wrong = fmt.Sprintf("%s; the model answers %s", show(answer.Outcome), show(ours))
	case ours.Err != nil && strings.HasPrefix(*ours.Err, "configuration error: "):
		words := (&db.Error{Err: errors.New(*ours.Err)}).Error() // in one short line, behind ": "
		if words = words[:min(len(words), 1000)]; !strings.Contains(*answer.Err, words) {
			answer.Wrong = fmt.Sprintf("the error is %q and should have %q", *answer.Err, words)
		}
	}
}

func differ(t *testing.T, a, b replay.Outcome) bool {
	return (a.Err == nil) != (b.Err == nil) || sameValues.Diff(decoded(t, a.OK), decoded(t, b.OK)) != ""
}

func show(o replay.Outcome) string {
	if o.Err != nil {
		return "the error " + *o.Err
	}
	return string(replay.Encode(o.OK))
}

func decoded(t *testing.T, v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	value, err := replay.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// spelled gives an answer with this process, this machine and the scratch folder in the transcript's words.
func (p *player) spelled(value any) any {
	return rewrite(decoded(p.t, value), func(name string, v any) any {
		switch v := v.(type) {
		case json.Number:
			if name == "pid" && v.String() == fmt.Sprint(os.Getpid()) {
				return map[string]any{"$self_pid": true}
			}
		case string:
			if boot := agents.CurrentBootID(); name == "boot_id" && boot != nil && v == *boot {
				return "$boot"
			}
			return strings.ReplaceAll(v, p.tree.root, "$root")
		}
		return v
	})
}

// meant is the other way round, for arguments.
func (p *player) meant(value any) any {
	return rewrite(value, func(_ string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			if v["$self_pid"] == true {
				return json.Number(fmt.Sprint(os.Getpid()))
			}
		case string:
			if boot := agents.CurrentBootID(); v == "$boot" && boot != nil {
				return *boot
			}
			return strings.ReplaceAll(v, "$root", p.tree.root)
		}
		return v
	})
}

func rewrite(value any, change func(name string, v any) any) any {
	var at func(name string, v any) any
	at = func(name string, v any) any {
		switch v := change(name, v).(type) {
		case map[string]any:
			out := maps.Clone(v)
			if len(v) == 1 && v["$self_pid"] == true {
				return out
			}
			for name, member := range v {
				out[name] = at(name, member)
			}
			return out
		case []any:
			out := slices.Clone(v)
			for i := range v {
				out[i] = at("", v[i])
			}
			return out
		default:
			return v
		}
	}
	return at("", value)
}

// call makes the call on the registry.
func (p *player) call(c *replay.Call) (any, error) {
	args := &replay.Call{Line: c.Line, Op: c.Op, Args: p.meant(c.Args)}
	id, r := args.Text("session_id"), p.registry
	switch c.Op {
	case "save":
		var e agents.Entry
		if err := args.Unmarshal("entry", &e); err != nil {
			return nil, unreadable{err}
		}
		return nil, r.Save(ctx, e)
	case "load":
		return optional(r.Load(ctx, id))
	case "list":
		list, err := r.List(ctx)
		return append([]agents.Entry{}, list...), err
	case "delete":
		return nil, r.Delete(ctx, id)
	case "update_status":
		return nil, r.UpdateStatus(ctx, id, agents.Status(args.Text("status")))
	case "update_entry":
		return optional(r.UpdateEntry(ctx, id, p.setter(args, "set")))
	case "log_context_query":
		var q agents.ContextQuery
		if err := args.Unmarshal("query", &q); err != nil {
			return nil, unreadable{err}
		}
		return nil, r.LogContextQuery(ctx, id, q)
	case "reap_dead":
		return r.ReapDead(ctx)
	case "reap_dead_for_thread":
		return r.ReapDeadForThread(ctx, args.Text("thread"))
	case "try_reserve_thread":
		return r.TryReserveThread(ctx, args.Text("thread"), p.builder(args))
	case "create_generated_entry_for_thread":
		return r.CreateGeneratedEntryForThread(ctx, args.Text("thread"), p.builder(args))
	case "create_generated_entry":
		return r.CreateGeneratedEntry(ctx, p.builder(args))
	case "find_or_create_active_entry":
		e, created, err := r.FindOrCreateActiveEntry(ctx, p.matcher(args), p.setter(args, "update"),
			p.builder(args))
		return map[string]any{"entry": e, "created": created}, err
	case "find_active_by_path":
		return optional(r.FindActiveByPath(ctx, args.Text("worktree_root")))
	case "find_active_by_native_instance_key_at_path":
		return optional(r.FindActiveByNativeInstanceKeyAtPath(ctx, args.Text("native_instance_key"),
			args.Text("worktree_root")))
	case "find_active_by_heddle_session_id":
		return optional(r.FindActiveByHeddleSessionID(ctx, args.Text("heddle_session_id")))
	case "find_active_by_client_instance_id":
		return optional(r.FindActiveByClientInstanceID(ctx, args.Text("client_instance_id")))
	case "find_active_by_native_actor_key":
		return optional(r.FindActiveByNativeActorKey(ctx, args.Text("native_actor_key")))
	case "actor_chain_for_session":
		chain, err := r.ActorChainForSession(ctx, id)
		return append([]agents.ActorChainNode{}, chain...), err
	case "liveness_for":
		var e agents.Entry
		if err := args.Unmarshal("entry", &e); err != nil {
			return nil, unreadable{err}
		}
		return agents.LivenessFor(e), nil
	case "generated_id_shape":
		made := agents.GenerateID()
		rest := strings.TrimPrefix(made, "agent-")
		return map[string]any{
			"len": len(made), "prefix": strings.TrimSuffix(made, rest),
			"rest_in_a_z_2_7": strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == "",
		}, nil
	}
	p.t.Fatalf("line %d: no counterpart of %s", c.Line, c.Op)
	return nil, nil
}

func optional(e agents.Entry, ok bool, err error) (any, error) {
	if !ok {
		return nil, err
	}
	return e, err
}

func (p *player) decode(c *replay.Call, name string, into any) {
	if err := c.Unmarshal(name, into); err != nil {
		p.t.Fatalf("line %d: %v", c.Line, err)
	}
}

func (p *player) setter(c *replay.Call, name string) func(*agents.Entry) {
	var members map[string]json.RawMessage
	p.decode(c, name, &members)
	return func(e *agents.Entry) {
		for member, value := range members {
			if err := agents.SetMember(e, member, value); err != nil {
				p.t.Errorf("line %d: set %s: %v", c.Line, member, err)
			}
		}
	}
}

func (p *player) matcher(c *replay.Call) func(agents.Entry) bool {
	var match struct {
		Field  string          `json:"field"`
		Equals json.RawMessage `json:"equals"`
	}
	p.decode(c, "match", &match)
	equals := decoded(p.t, match.Equals)
	return func(e agents.Entry) bool {
		members, _ := decoded(p.t, e).(map[string]any)
		return (!p.original.NullIsThere || members[match.Field] != nil) &&
			reflect.DeepEqual(members[match.Field], equals)
	}
}

// buildError fails as a builder of the original's that returns a configuration error.
type buildError string

func (e buildError) Error() string { return "configuration error: " + string(e) }

func (p *player) builder(c *replay.Call) agents.Builder {
	return func(id string) (agents.Entry, error) {
		id = cmp.Or(p.given, id)
		p.generated = id
		var recipe map[string]json.RawMessage
		p.decode(&replay.Call{Args: rewrite(c.Args, func(_ string, v any) any {
			if text, ok := v.(string); ok {
				return strings.ReplaceAll(text, "$id", id)
			}
			return v
		})}, "build", &recipe)
		if fail, ok := recipe["$fail"]; ok {
			var text string
			if err := json.Unmarshal(fail, &text); err != nil {
				return agents.Entry{}, err
			}
			return agents.Entry{}, buildError(text)
		}
		e := agents.Entry{
			SessionID: id, Thread: "t/default", BaseState: "hd-base", StartedAt: p.clock.Now(),
			Status: agents.Active,
		}
		for member, value := range recipe {
			if err := agents.SetMember(&e, member, value); err != nil {
				return e, err
			}
		}
		return e, nil
	}
}
