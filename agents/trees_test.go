package agents_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/legacy"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// expectedTree is what the original answers on a tree; see the README beside the trees.
type expectedTree struct {
	AsOf      string `json:"as_of"`
	Inventory struct {
		Decodable *int `json:"decodable_entries"`
		Files     map[string]struct {
			Kind  string `json:"kind"`
			Entry struct {
				SessionID *string       `json:"session_id"`
				Status    agents.Status `json:"status"`
				Thread    string        `json:"thread"`
				Skipped   string        `json:"skipped"`
				Ignored   string        `json:"ignored"`
			} `json:"entry"`
		} `json:"files"`
	} `json:"inventory"`
	List          recordedAnswer            `json:"list"`
	RemovedByList []string                  `json:"removed_by_list"`
	Load          map[string]recordedAnswer `json:"load"`
	ReapDead      recordedAnswer            `json:"reap_dead"`
	Reserve       map[string]struct {
		Reserved  bool              `json:"reserved"`
		LiveOwner string            `json:"live_owner"`
		AnyOf     []json.RawMessage `json:"any_of"`
		Err       string            `json:"err"`
	} `json:"try_reserve_thread_each_on_one_copy"`
	Chains map[string][]string `json:"actor_chain_for_session"`
}

type recordedAnswer struct {
	OK  json.RawMessage `json:"ok"`
	Err string          `json:"err"`
}

func TestTrees(t *testing.T) {
	var tally replay.Tally
	replay.EachTree(t, "agents", func(t *testing.T, tree replay.Tree) {
		counted, err := newTreePlayer(t, tree, tree.Expected).play()
		if err != nil {
			t.Error(err)
		}
		tally.Add(counted)
	})
	t.Log(tally)
}

func TestTheTreesNoticeFalsifiedAnswers(t *testing.T) {
	list, err := replay.Trees("agents")
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range list {
		if !strings.HasSuffix(tree.Name, "small") {
			continue
		}
		for what, lie := range map[string][2]string{
			"list":    {`"base_state": "hd-225ec07a99506761"`, `"base_state": "hd-225ec07a99506762"`},
			"load":    {`"liveness": "unknown"`, `"liveness": "alive"`},
			"reap":    {`"ok": 1`, `"ok": 2`},
			"owner":   {`"live_owner": "agent-active-live"`, `"live_owner": "agent-active-nopid"`},
			"free":    {`"reserved": true`, `"reserved": false`},
			"id":      {`"session_id": "agent-done"`, `"session_id": "agent-dome"`},
			"status":  {`"status": "complete"`, `"status": "merged"`},
			"thread":  {`"thread": "main"`, `"thread": "man"`},
			"entries": {`"decodable_entries": 7`, `"decodable_entries": 8`},
			"clock":   {`"as_of": "2026-05-20`, `"as_of": "2026-06-20`},
			"removed": {`"removed_by_list": [`, `"removed_by_list": ["agent-done.toml", `},
		} {
			t.Run(tree.Name+"/"+what, func(t *testing.T) {
				falsified := bytes.Replace(tree.Expected, []byte(lie[0]), []byte(lie[1]), 1)
				if bytes.Equal(falsified, tree.Expected) {
					t.Fatalf("the tree's answers don't have %s", lie[0])
				}
				if _, err := newTreePlayer(t, tree, falsified).play(); err == nil {
					t.Error("the falsified answer passed")
				}
			})
		}
	}
}

// A treePlayer asks what the original was asked about a tree, each question on an import of its own.
type treePlayer struct {
	t     *testing.T
	dir   string
	want  expectedTree
	clock *dbtest.Clock
	tally replay.Tally
	model replay.Agents // answers where the original stops at a file that it can't read (rule 13)
}

func newTreePlayer(t *testing.T, tree replay.Tree, expected []byte) *treePlayer {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	p := &treePlayer{t: t, dir: filepath.Join(dir, "heddle"), model: replay.Agents{Ours: true, Alive: pidAlive}}
	if boot := agents.CurrentBootID(); boot != nil {
		p.model.Boot = *boot
	}
	if err := json.Unmarshal(bytes.ReplaceAll(expected, []byte("$tree"), []byte(p.dir)), &p.want); err != nil {
		t.Fatal(err)
	}
	at, _, err := chrono.Parse(p.want.AsOf)
	if err != nil {
		t.Fatal(err)
	}
	p.clock = dbtest.NewClock(at)
	return p
}

// imported gives a registry with the tree in it.
func (p *treePlayer) imported() (*agents.Registry, *db.DB, legacy.Report) {
	d := dbtest.Open(p.t, db.Options{Now: p.clock.Now, Synchronous: db.SyncNormal})
	report, err := legacy.Import(ctx, d, legacy.Agents, p.dir, legacy.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	return agents.NewRegistry(d, agents.Options{}), d, report
}

func (p *treePlayer) play() (replay.Tally, error) {
	for _, look := range []func() error{p.inventory, p.lossless, p.list, p.load, p.reap, p.reserve, p.chains} {
		if err := look(); err != nil {
			return p.tally, err
		}
	}
	return p.tally, nil
}

func (p *treePlayer) compared() { p.tally.Add(replay.Tally{Compared: 1}) }

func (p *treePlayer) judged(rule int) { p.tally.Add(replay.Tally{Judged: map[int]int{rule: 1}}) }

// inventory: every file is an agent, in quarantine, or what the original does not read either.
func (p *treePlayer) inventory() error {
	_, d, report := p.imported()
	taken, bad, ignored, collisions := 0, 0, 0, int(p.collisions())
	for name, f := range p.want.Inventory.Files {
		switch {
		case p.collides(name):
			bad++
			if !slices.ContainsFunc(report.Quarantined, func(q legacy.Quarantined) bool { return q.File == name }) {
				return fmt.Errorf("%s has the id of another file and is not in quarantine", name)
			}
			p.judged(27)
		case f.Entry.SessionID != nil:
			taken++
			n, id := 0, strings.TrimSuffix(name, extension)
			if !isID(id) {
				id = *f.Entry.SessionID
			}
			err := d.Read(ctx, "look", func(rx *db.Rx) error {
				return rx.Get(&n, `SELECT count(*) FROM agents WHERE session_id = ? AND status = ? AND thread = ?`, id,
					string(f.Entry.Status), f.Entry.Thread)
			})
			if err != nil || n != 1 {
				return fmt.Errorf("%s is not stored as %+v: %w", name, f.Entry, err)
			}
		case f.Entry.Skipped != "":
			bad++
			if !slices.ContainsFunc(report.Quarantined, func(q legacy.Quarantined) bool { return q.File == name }) {
				return fmt.Errorf("%s can't be read (%s) and is not in quarantine", name, f.Entry.Skipped)
			}
		case name != ".lock":
			ignored++
		}
	}
	if all := p.want.Inventory.Decodable; all != nil && *all != taken+collisions {
		return fmt.Errorf("%d entries can be read, recorded are %d", taken+collisions, *all)
	}
	count, files := report.Counts["agent"], report.Files
	undecodable := int(count.Quarantined + report.Counts["undecodable"].Quarantined + files.Unreadable)
	if int(count.New) != taken || undecodable != bad || int(files.Ignored) != ignored ||
		int(files.Found) != taken+bad {
		return fmt.Errorf("of %d agents, %d bad and %d ignored files came %+v, %+v", taken, bad, ignored,
			report.Counts, files)
	}
	p.compared()
	return nil
}

// leavesWhole reports whether an export leaves nothing out but what an import could not read either.
func leavesWhole(report *legacy.Report) bool {
	return !slices.ContainsFunc(report.LeftOut, func(r legacy.Remark) bool {
		return !strings.HasPrefix(r.Reason, "is in quarantine, row ") &&
			!strings.HasPrefix(r.Reason, "is written, but the old program can't read it: ")
	})
}

// lossless: an export is the tree, byte for byte, what can't be read too; importing either again
// changes nothing.
func (p *treePlayer) lossless() error {
	_, d, _ := p.imported()
	out := filepath.Join(p.t.TempDir(), "out")
	if report, err := legacy.Export(ctx, d, legacy.Agents, out, legacy.Options{}); err != nil ||
		!leavesWhole(&report) {
		return fmt.Errorf("export: %+v, %w", report, err)
	}
	for name, f := range p.want.Inventory.Files {
		got, errGot := os.ReadFile(filepath.Join(out, "agents", name))
		if f.Entry.SessionID == nil || p.collides(name) {
			if errors.Is(errGot, os.ErrNotExist) {
				continue
			}
		}
		source, err := os.ReadFile(filepath.Join(p.dir, "agents", name))
		if err != nil || errGot != nil || !bytes.Equal(got, source) {
			return fmt.Errorf("%s leaves as\n%s\n%w\nand came as\n%s", name, got, errors.Join(err, errGot), source)
		}
	}
	for dir, collisions := range map[string]int64{p.dir: p.collisions(), out: 0} {
		again, err := legacy.Import(ctx, d, legacy.Agents, dir, legacy.Options{})
		if count := again.Counts["agent"]; err != nil || count.Already+collisions != count.Read {
			return fmt.Errorf("imported again: %+v, %w", again, err)
		}
		verified, err := legacy.Verify(ctx, d, legacy.Agents, dir, legacy.Options{})
		if count := verified.Counts["agent"]; err != nil || count.Already+collisions != count.Read {
			return fmt.Errorf("verify: %+v, %w", verified, err)
		}
	}
	p.compared()
	return nil
}

func (p *treePlayer) list() error {
	r, d, _ := p.imported()
	entries, err := r.List(ctx)
	if err != nil {
		return err
	}
	for i := range entries {
		if id := p.inner(entries[i].SessionID); id != entries[i].SessionID {
			entries[i].SessionID = id
			p.judged(27)
		}
	}
	want, err := replay.Decode(p.want.List.OK)
	if err != nil {
		return err
	}
	if want, err = p.withoutCollisions(want); err != nil {
		return err
	}
	ours, theirs := byStart(decoded(p.t, entries)), byStart(want)
	if d := sameValues.Diff(theirs, ours); d != "" {
		return fmt.Errorf("list: %s", d)
	}
	p.compared()
	for _, name := range p.want.RemovedByList {
		id := strings.TrimSuffix(name, extension)
		switch {
		case p.collides(name):
			p.judged(27)
			continue
		case !isID(id):
			id = *p.want.Inventory.Files[name].Entry.SessionID
		}
		n := 0
		err := d.Read(ctx, "look", func(rx *db.Rx) error {
			return rx.Get(&n, `SELECT count(*) FROM agents WHERE session_id = ? AND put_aside_at IS NOT NULL`, id)
		})
		if err != nil || n != 1 {
			return fmt.Errorf("list did not put %s aside: %w", name, err)
		}
		p.judged(12)
	}
	return nil
}

// byStart orders a list with its ties.
func byStart(list any) any {
	entries, _ := list.([]any)
	slices.SortStableFunc(entries, func(a, b any) int {
		x, y := a.(map[string]any), b.(map[string]any)
		startX, _, _ := chrono.Parse(x["started_at"].(string))
		startY, _, _ := chrono.Parse(y["started_at"].(string))
		return cmp.Or(startY.Compare(startX),
			strings.Compare(fmt.Sprint(x["session_id"], x["thread"]), fmt.Sprint(y["session_id"], y["thread"])))
	})
	return list
}

func (p *treePlayer) load() error {
	r, _, _ := p.imported()
	for _, stem := range slices.Sorted(maps.Keys(p.want.Load)) {
		want := p.want.Load[stem]
		e, ok, err := r.Load(ctx, stem)
		switch {
		case want.Err != "" && strings.HasPrefix(want.Err, "configuration error: invalid session ID"):
			if !errors.Is(err, db.ErrInvalid) {
				return fmt.Errorf("load %q: %v, %w", stem, ok, err)
			}
		case want.Err != "":
			if ok || err != nil {
				return fmt.Errorf("load %q, which can't be read: %v, %w", stem, ok, err)
			}
			p.judged(13)
			continue
		case err != nil:
			return fmt.Errorf("load %q: %w", stem, err)
		default:
			if err := p.sameEntry(stem, want.OK, e, ok); err != nil {
				return err
			}
		}
		p.compared()
	}
	return nil
}

func (p *treePlayer) sameEntry(stem string, want json.RawMessage, e agents.Entry, ok bool) error {
	var is *struct {
		SessionID string          `json:"session_id"`
		Status    agents.Status   `json:"status"`
		Thread    string          `json:"thread"`
		Liveness  agents.Liveness `json:"liveness"`
	}
	if len(want) > 0 {
		if err := json.Unmarshal(want, &is); err != nil {
			return err
		}
	}
	if (is != nil) != ok {
		return fmt.Errorf("load %q: found %v, recorded is %s", stem, ok, want)
	}
	if ok && (is.SessionID != p.inner(e.SessionID) || is.Status != e.Status || is.Thread != e.Thread ||
		is.Liveness != agents.LivenessFor(e)) {
		return fmt.Errorf("load %q: %+v is %s, recorded is %s", stem, e, agents.LivenessFor(e), want)
	}
	return nil
}

// fill gives the model the tree as ours has it.
func (p *treePlayer) fill(r *agents.Registry) error {
	for e, err := range r.All(ctx, agents.Filter{}) {
		if err != nil {
			return err
		}
		p.model.Write(e.SessionID, decoded(p.t, e).(map[string]any), "")
	}
	return nil
}

// ask has the model answer.
func (p *treePlayer) ask(op string, args map[string]any, id string) any {
	out := p.model.Call(&replay.Call{Op: op, Args: args}, p.clock.Now(), id)
	if out.Err != nil {
		p.t.Fatalf("the model fails: %s", *out.Err)
	}
	return decoded(p.t, out.OK)
}

func (p *treePlayer) reap() error {
	r, _, _ := p.imported()
	if err := p.fill(r); err != nil {
		return err
	}
	n, err := r.ReapDead(ctx)
	if err != nil {
		return err
	}
	want := string(p.want.ReapDead.OK)
	modelled := fmt.Sprint(p.ask("reap_dead", nil, ""))
	recorded, err := strconv.Atoi(want)
	switch {
	case p.want.ReapDead.Err != "":
		want = modelled
		p.judged(13)
	case err == nil && recorded < n && n-recorded <= p.misnamed():
		// Reaping a file under another's name, the original ends that one too, and meets it as ended.
		want = modelled
		p.judged(27)
	default:
		p.compared()
	}
	if fmt.Sprint(n) != want {
		return fmt.Errorf("reaped %d, recorded is %s", n, want)
	}
	return nil
}

func (p *treePlayer) reserve() error {
	r, _, _ := p.imported()
	if err := p.fill(r); err != nil {
		return err
	}
	for _, thread := range slices.Sorted(maps.Keys(p.want.Reserve)) {
		out, err := r.TryReserveThread(ctx, thread, func(id string) (agents.Entry, error) {
			return agents.Entry{
				SessionID: id, Thread: thread, BaseState: "b", StartedAt: p.clock.Now(),
				Status: agents.Active,
			}, nil
		})
		if err != nil {
			return fmt.Errorf("reserve %q: %w", thread, err)
		}
		made, owner := "agent-made", ""
		if out.Reserved != nil {
			made = out.Reserved.SessionID
		} else {
			owner = out.LiveOwner.SessionID
		}
		answer := p.ask("try_reserve_thread",
			map[string]any{"thread": thread, "build": map[string]any{"thread": thread}}, made).(map[string]any)
		modelled, _ := answer["live_owner"].(map[string]any)
		if modelled == nil != (owner == "") || owner != "" && modelled["session_id"] != owner {
			return fmt.Errorf("reserve %q: the owner is %q, the model answers %v", thread, owner, answer)
		}
		want := p.want.Reserve[thread]
		switch {
		case want.Err != "":
			p.judged(13)
			continue
		case want.LiveOwner != p.inner(owner) && p.quarantined(want.LiveOwner, thread):
			p.judged(27)
			continue
		case len(want.AnyOf) > 0:
			// Each is an owner, or an answer that names one.
			if !slices.ContainsFunc(want.AnyOf, func(one json.RawMessage) bool {
				return bytes.Contains(one,
					[]byte(strconv.Quote(p.inner(owner))))
			}) {
				return fmt.Errorf("reserve %q: the owner is %q, recorded are %s", thread, owner, want.AnyOf)
			}
		case want.Reserved != (owner == ""), owner != "" && p.inner(owner) != want.LiveOwner:
			return fmt.Errorf("reserve %q: the owner is %q, recorded is %+v", thread, owner, want)
		}
		p.compared()
	}
	return nil
}

func (p *treePlayer) chains() error {
	r, _, _ := p.imported()
	for _, id := range slices.Sorted(maps.Keys(p.want.Chains)) {
		var chains [][]string
		for _, outer := range p.outer(id) { // more than one: files that say the same id
			chain := chainOf(p.t, r, outer)
			for i := range chain {
				chain[i] = p.inner(chain[i])
			}
			chains = append(chains, chain)
		}
		if !slices.ContainsFunc(chains, func(chain []string) bool {
			return slices.Equal(chain,
				p.want.Chains[id])
		}) {
			return fmt.Errorf("the chain of %s is %v, recorded is %v", id, chains, p.want.Chains[id])
		}
		p.compared()
	}
	return nil
}
