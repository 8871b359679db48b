package checkpoints_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/legacy"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// expected is what the original answers on a tree.
type expected struct {
	List       []string              `json:"list"`
	Inflight   []string              `json:"inflight"`
	OtherNames []string              `json:"other_names"`
	TempFiles  []string              `json:"temp_files"`
	IDs        map[string]expectedID `json:"ids"`
	Recovered  struct {
		Answer    struct{ OK *int }
		ListAfter []string `json:"list_after"`
	} `json:"recover_orphaned_on_a_copy"`
}

type expectedID struct {
	Load struct {
		OK        json.RawMessage `json:"ok"`
		Summary   *expectedSummary
		Canonical string          `json:"canonical_sha256"`
		Err       string          `json:"err"`
		Kind      string          `json:"kind"`
		Varies    json.RawMessage `json:"varies"`
	} `json:"load"`
	Claim            json.RawMessage `json:"claim"` // absent in large trees
	ClaimAgain       json.RawMessage `json:"claim_again"`
	ListedAfterClaim bool            `json:"listed_after_claim"`
	HasJSON          bool            `json:"has_json"`
	HasInflight      bool            `json:"has_inflight"`
	Bytes            *int64          `json:"bytes"`
	SHA256           string          `json:"sha256"`
}

type expectedSummary struct {
	RunID         string `json:"run_id"`
	PausedStageID string `json:"paused_stage_id"`
	Prompt        string `json:"prompt"`
	CreatedAt     string `json:"created_at"`
}

func (e expectedID) undecodable() bool { return e.Load.Kind == "InvalidData" }

func TestTrees(t *testing.T) {
	replay.EachTree(t, "checkpoints", func(t *testing.T, tree replay.Tree) {
		var want expected
		check(t, json.Unmarshal(tree.Expected, &want))
		dir := unpack(t, tree)
		store, report := importTree(t, dir)
		j := &judge{t: t, store: store, dir: dir}
		j.all(want, report)
		for _, wrong := range j.wrong {
			t.Error(wrong)
		}
		t.Logf("%d answers compared, judged by rule: %v", j.compared, j.ruled)
		sameAfterRoundTrip(t, store, dir)
	})
}

func unpack(t *testing.T, tree replay.Tree) string {
	dir := filepath.Join(t.TempDir(), "tree")
	check(t, os.Mkdir(dir, 0o700))
	check(t, tree.Unpack(dir))
	for { // the one folder that the archive may hold
		entries, err := os.ReadDir(dir)
		check(t, err)
		if len(entries) != 1 || !entries[0].IsDir() {
			return dir
		}
		dir = filepath.Join(dir, entries[0].Name())
	}
}

type treeStore struct {
	*checkpoints.Store
	db *db.DB
}

func importTree(t testing.TB, dir string) (treeStore, legacy.Report) {
	t.Helper()
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	report, err := legacy.Import(ctx, d, legacy.Checkpoints, dir, legacy.Options{})
	check(t, err)
	return treeStore{checkpoints.NewStore(d, checkpoints.Options{}), d}, report
}

// A judge compares our answers with the original's and keeps what is wrong.
type judge struct {
	t        testing.TB
	store    treeStore
	dir      string // the tree
	compared int
	ruled    map[int]int
	wrong    []string
}

func (j *judge) all(want expected, report legacy.Report) {
	j.report(want, report)
	j.answers(want)
	j.claims(want)
	j.recovery(want)
}

// has reports whether there is a file behind a name; behind others that the original lists is a
// folder or nothing (rule 17).
func (j *judge) has(name string) bool {
	_, err := os.ReadFile(filepath.Join(j.dir, name))
	return err == nil
}

func (j *judge) equal(what string, want, got any) {
	j.compared++
	if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
		j.wrong = append(j.wrong, fmt.Sprintf("%s: %.300s, want %.300s", what, g, w))
	}
}

func (j *judge) rule(n int) {
	if j.ruled == nil {
		j.ruled = map[int]int{}
	}
	j.ruled[n]++
}

// report checks that the counts add up to the inventory, and that all that is wrong is named.
func (j *judge) report(want expected, report legacy.Report) {
	var names []string
	for _, id := range want.List {
		names = append(names, id+".json")
	}
	for _, id := range want.Inflight {
		names = append(names, id+".inflight")
	}
	unread, undecodable := 0, 0
	for _, name := range names {
		if !j.has(name) {
			j.rule(17)
			unread++
		}
	}
	for _, e := range want.IDs {
		if e.undecodable() {
			undecodable++
		}
	}
	for _, q := range report.Quarantined { // the original never looks into claims; we do
		if strings.HasSuffix(q.File, ".inflight") && q.What != "file" {
			undecodable++
		}
	}
	for _, name := range slices.Concat(want.OtherNames, want.TempFiles) {
		_, err := os.Lstat(filepath.Join(j.dir, name))
		// which stands for what is no UTF-8
		j.equal("there is a "+name, true, err == nil || strings.ContainsRune(name, '\uFFFD'))
	}
	unnamed := j.unnamed()
	files := len(names) + unnamed
	j.equal("record files", files, report.Files.Found)
	j.equal("unreadable files", unread, report.Files.Unreadable)
	j.equal("undecodable documents", undecodable, report.Counts["undecodable"].Quarantined)
	j.equal("documents", files-unread-undecodable, report.Counts["checkpoint"].New)
	j.equal("quarantined", undecodable+unread, len(report.Quarantined))
	j.equal("ignored", len(want.OtherNames)+len(want.TempFiles)-unnamed, report.Files.Ignored)
}

// unnamed counts the records of the run "", which the original neither lists nor recovers (rule 16).
func (j *judge) unnamed() int {
	n := 0
	for _, state := range []checkpoints.State{checkpoints.Paused, checkpoints.Claimed} {
		_, err := j.store.Get(ctx, checkpoints.Ref{State: state})
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		check(j.t, err)
		j.rule(16)
		n++
	}
	return n
}

// named leaves out the run "".
func named(ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return id == "" })
}

// only keeps the ids of a recorded list that have a file with one of the extensions.
func (j *judge) only(ids []string, extensions ...string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return !slices.ContainsFunc(extensions, func(extension string) bool { return j.has(id + extension) })
	})
}

func (j *judge) answers(want expected) {
	ids, err := j.store.List(ctx)
	check(j.t, err)
	j.equal("list", j.only(want.List, ".json"), named(ids))
	summaries := map[string]checkpoints.Summary{}
	claimed := []string{}
	for s, err := range j.store.All(ctx, checkpoints.Filter{}) {
		check(j.t, err)
		summaries[string(s.State)+" "+s.RunID] = s
		if s.State == checkpoints.Claimed {
			claimed = append(claimed, s.RunID)
		}
	}
	j.equal("claims", j.only(want.Inflight, ".inflight"), named(claimed))
	for _, id := range slices.Sorted(maps.Keys(want.IDs)) {
		e := want.IDs[id]
		_, isClaimed := summaries["claimed "+id]
		if e.HasInflight && j.blocked(id+".inflight") { // by a folder
			j.rule(17)
		} else {
			j.equal("claim file of "+id, e.HasInflight, isClaimed)
		}
		if j.blocked(id + ".json") {
			j.rule(17)
			_, ok, err := j.store.Load(ctx, id)
			j.equal("load of "+id, "false <nil>", fmt.Sprint(ok, " ", err))
			j.equal("recorded load of "+id, "", e.Load.Canonical)
			continue
		}
		j.document(id, e, summaries["paused "+id])
	}
}

func (j *judge) document(id string, e expectedID, s checkpoints.Summary) {
	document, ok, err := j.store.LoadDocument(ctx, id)
	switch {
	case e.undecodable():
		j.rule(15)
		j.equal("problem of "+id, e.Load.Err, s.Problem)
		j.equal("bytes of "+id, *e.Bytes, s.Size)
		j.equal("load of "+id+" is ErrCorrupt", true,
			errors.Is(err, db.ErrCorrupt) && strings.Contains(err.Error(), e.Load.Err))
		text, err := os.ReadFile(filepath.Join(j.dir, id+".json")) // what an export gives back
		check(j.t, err)
		j.equal("sha256 of "+id, e.SHA256, sum(text))
		return
	case !e.HasJSON:
		j.equal("load of "+id, "false <nil>", fmt.Sprint(ok, " ", err))
		return
	}
	check(j.t, err)
	j.equal("load of "+id, true, ok)
	j.equal("bytes of "+id, *e.Bytes, len(document))
	j.equal("sha256 of "+id, e.SHA256, sum(document))
	canonical, err := checkpoints.Canonical(document)
	check(j.t, err)
	if e.Load.Varies == nil {
		j.equal("value of "+id, e.Load.Canonical, sum(canonical))
	}
	if e.Load.OK != nil {
		recorded, err := replay.Decode(e.Load.OK)
		check(j.t, err)
		ours, err := replay.Decode(canonical)
		check(j.t, err)
		j.equal("value of "+id, "", sameValues.Diff(recorded, ours))
	}
	if w := e.Load.Summary; w != nil {
		p, ok, err := j.store.Load(ctx, id)
		check(j.t, err)
		j.equal("summary of "+id, []any{true, w.RunID, w.PausedStageID, w.Prompt},
			[]any{ok, p.RunID, s.PausedStageID, s.Prompt})
		at, _, err := chrono.Parse(w.CreatedAt) // a second 60 is in the document
		check(j.t, err)
		j.equal("time of "+id, at, s.CreatedAt)
	}
}

func sum(text []byte) string {
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:])
}

// claims makes the claims that the original made, all on one copy: they are about different runs.
func (j *judge) claims(want expected) {
	store, _ := importTree(j.t, j.dir)
	for _, id := range slices.Sorted(maps.Keys(want.IDs)) {
		e := want.IDs[id]
		if e.Claim == nil || j.blocked(id+".json") {
			continue
		}
		for i, recorded := range []json.RawMessage{e.Claim, e.ClaimAgain} {
			_, ok, err := store.Claim(ctx, id)
			ours := map[bool]string{true: `"some"`, false: `"none"`}[ok]
			if err != nil {
				ours = "error"
			}
			switch {
			case e.undecodable():
				j.rule(15)
				j.equal("claim of "+id, "error", ours)
			case failedOnNames(e.Claim): // the name of the claim is too long there, or a folder is in its place
				j.rule(16)
				j.equal("claim of "+id, []string{`"some"`, `"none"`}[i], ours)
			default:
				j.equal("claim of "+id, string(recorded), ours)
			}
		}
	}
	ids, err := store.List(ctx)
	check(j.t, err)
	for _, id := range slices.Sorted(maps.Keys(want.IDs)) {
		e := want.IDs[id]
		if e.Claim != nil && !j.blocked(id+".json") && !failedOnNames(e.Claim) {
			j.equal(id+" is listed after its claim", e.ListedAfterClaim || e.undecodable() && e.HasJSON,
				slices.Contains(ids, id))
		}
	}
}

// blocked reports whether a name is taken by what is no file.
func (j *judge) blocked(name string) bool {
	_, err := os.Lstat(filepath.Join(j.dir, name))
	return err == nil && !j.has(name)
}

// failedOnNames reports whether a claim failed because of the file system.
func failedOnNames(claim json.RawMessage) bool {
	return strings.Contains(string(claim), "InvalidFilename") || strings.Contains(string(claim), "IsADirectory")
}

func (j *judge) recovery(want expected) {
	if want.Recovered.Answer.OK == nil { // a folder in the way stopped the original somewhere
		j.rule(17)
		return
	}
	store, report := importTree(j.t, j.dir)
	undecodable, behind := 0, 0
	for _, q := range report.Quarantined {
		id, claim := strings.CutSuffix(q.File, ".inflight")
		if claim && !want.IDs[id].HasJSON {
			undecodable++ // or not there at all, which the original moves and counts as well
			j.rule(15)
		}
	}
	for _, id := range want.Inflight {
		if want.IDs[id].HasJSON && j.blocked(id+".json") && j.has(id+".inflight") {
			behind++ // a folder, for which the original drops the claim
			j.rule(17)
		}
	}
	_, unnamed, err := store.Load(ctx, "")
	check(j.t, err)
	n, err := store.RecoverOrphaned(ctx)
	check(j.t, err)
	if _, now, err := store.Load(ctx, ""); err == nil && now && !unnamed {
		j.rule(16)
		n--
	}
	j.equal("recovered", *want.Recovered.Answer.OK-undecodable+behind, n)
	ids, err := store.List(ctx)
	check(j.t, err)
	j.equal("list after recovery", j.only(want.Recovered.ListAfter, ".json", ".inflight"), named(ids))
}

// sameAfterRoundTrip imports the tree again, which adds nothing, verifies it, exports it, which
// gives the same bytes, and imports that.
func sameAfterRoundTrip(t *testing.T, store treeStore, dir string) {
	t.Helper()
	before := contents(t, store.Store)
	again, err := legacy.Import(ctx, store.db, legacy.Checkpoints, dir, legacy.Options{})
	check(t, err)
	if again.Files.New+again.Files.Changed != 0 || contents(t, store.Store) != before {
		t.Errorf("a second import changes something: %+v", again)
	}
	verified, err := legacy.Verify(ctx, store.db, legacy.Checkpoints, dir, legacy.Options{})
	check(t, err)
	if verified.Files.New+verified.Files.Changed != 0 || len(verified.Differs) > 0 ||
		len(verified.Quarantined) < int(verified.Files.Unreadable) {
		t.Errorf("verification finds %+v", verified)
	}
	out := filepath.Join(t.TempDir(), "out")
	exported, err := legacy.Export(ctx, store.db, legacy.Checkpoints, out, legacy.Options{})
	check(t, err)
	unread := map[string]bool{}
	for _, q := range verified.Quarantined {
		unread[q.File] = true
	}
	for _, r := range exported.LeftOut {
		// those two stand in no list of the original
		if !unread[r.File] && r.File != ".json" && r.File != ".inflight" {
			t.Errorf("left out: %v", r)
		}
	}
	for _, r := range exported.Readable {
		if r.Readable == (unread[r.File] || r.File == ".json" || r.File == ".inflight") {
			t.Errorf("the original can read it: %+v", r)
		}
	}
	wantSameFiles(t, dir, out)
	back, _ := importTree(t, out)
	if contents(t, back.Store) != before {
		t.Errorf("imported again it is %s, not %s", contents(t, back.Store), before)
	}
}

func wantSameFiles(t *testing.T, dir, out string) {
	t.Helper()
	names, err := os.ReadDir(out)
	check(t, err)
	for _, n := range names {
		was, err := os.ReadFile(filepath.Join(dir, n.Name()))
		check(t, err)
		is, err := os.ReadFile(filepath.Join(out, n.Name()))
		check(t, err)
		if !bytes.Equal(was, is) {
			t.Errorf("%s has other bytes", n.Name())
		}
	}
}

func TestFalsifiedAnswersOnATreeAreNoticed(t *testing.T) {
	trees, err := replay.Trees("checkpoints")
	check(t, err)
	tree := trees[slices.IndexFunc(trees,
		func(t replay.Tree) bool { return strings.HasSuffix(t.Name, "awkward") })]
	dir := unpack(t, tree)
	store, report := importTree(t, dir)
	for name, lie := range map[string]func(e *expected){
		"list":        func(e *expected) { e.List = e.List[1:] },
		"other name":  func(e *expected) { e.OtherNames[0] += "x" },
		"undecodable": change("torn", func(e *expectedID) { e.SHA256 += "x" }),
		"claimed too": change("plain", func(e *expectedID) { e.HasInflight = true }),
		"inventory":   func(e *expected) { e.OtherNames = append(e.OtherNames, "more") },
		"recovered":   func(e *expected) { *e.Recovered.Answer.OK++ },
		"list after":  func(e *expected) { e.Recovered.ListAfter = e.Recovered.ListAfter[1:] },
		"error text":  change("torn", func(e *expectedID) { e.Load.Err += "x" }),
		"readable":    change("plain", func(e *expectedID) { e.Load.Kind = "InvalidData" }),
		"value":       change("plain", func(e *expectedID) { e.Load.Canonical = e.SHA256 }),
		"whole value": change("plain", func(e *expectedID) {
			e.Load.OK = bytes.Replace(e.Load.OK,
				[]byte("gate"), []byte("date"), 1)
		}),
		"bytes":   change("plain", func(e *expectedID) { *e.Bytes++ }),
		"sha256":  change("plain", func(e *expectedID) { e.SHA256 = e.Load.Canonical }),
		"summary": change("plain", func(e *expectedID) { e.Load.Summary.Prompt += "x" }),
		"time": change("plain", func(
			e *expectedID,
		) {
			e.Load.Summary.CreatedAt = "2026-05-02T10:00:01Z"
		}),
		"claim":           change("plain", func(e *expectedID) { e.Claim = json.RawMessage(`"none"`) }),
		"second claim":    change("plain", func(e *expectedID) { e.ClaimAgain = json.RawMessage(`"some"`) }),
		"listed":          change("plain", func(e *expectedID) { e.ListedAfterClaim = true }),
		"claims":          func(e *expected) { e.Inflight[0] += "x" },
		"claim too many":  func(e *expected) { e.Inflight = append(e.Inflight, "more") },
		"has an inflight": change("both", func(e *expectedID) { e.HasInflight = false }),
	} {
		var want expected
		check(t, json.Unmarshal(tree.Expected, &want))
		lie(&want)
		j := &judge{t: t, store: store, dir: dir}
		j.all(want, report)
		if len(j.wrong) == 0 {
			t.Errorf("a falsified answer was not noticed: %s", name)
		}
	}
}

// change falsifies what is said about a run.
func change(id string, lie func(e *expectedID)) func(*expected) {
	return func(want *expected) {
		e := want.IDs[id]
		lie(&e)
		want.IDs[id] = e
	}
}
