package checkpoints_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/legacy"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

var sameValues = replay.Comparison{}

func TestTranscripts(t *testing.T) {
	list, err := replay.Transcripts("checkpoints")
	if err != nil {
		t.Fatal(err)
	}
	var tally replay.Tally
	for _, transcript := range list {
		t.Run(transcript.Name, func(t *testing.T) {
			counted, err := replay.Play(transcript, newPlayer(t), sameValues)
			if err != nil {
				t.Error(err)
			}
			tally.Add(counted)
		})
	}
	t.Log(tally)
}

func TestTheReplayNoticesFalsifiedAnswers(t *testing.T) {
	list, err := replay.Transcripts("checkpoints")
	if err != nil {
		t.Fatal(err)
	}
	for _, transcript := range list {
		if strings.HasPrefix(transcript.Base(), "random") && !strings.HasSuffix(transcript.Base(), "6") {
			continue // one of them says it all
		}
		t.Run(transcript.Name, func(t *testing.T) {
			if _, err := replay.PlayFalsified(transcript, newPlayer(t), sameValues); err != nil {
				t.Error(err)
			}
		})
	}
}

// A player plays one transcript on a store, and on two models beside it: the original as it is, and
// with the differences that are on purpose. Where these two differ the store must answer as the
// second, by the rule that caused it.
type player struct {
	t      *testing.T
	path   string
	db     *db.DB
	store  *checkpoints.Store
	folder string // stands for the original's, for ops on files

	original, ours replay.Checkpoints
}

func newPlayer(t *testing.T) *player {
	p := &player{t: t, folder: filepath.Join(t.TempDir(), "checkpoints")}
	for _, m := range []*replay.Checkpoints{&p.original, &p.ours} {
		*m = replay.Checkpoints{
			Read: func(document []byte) (json.RawMessage, error) { return checkpoints.Canonical(document) },
			Write: func(paused json.RawMessage) ([]byte, error) {
				read, err := checkpoints.Decode(paused)
				if err != nil {
					return nil, err
				}
				return asMade(read).Document()
			},
		}
	}
	p.ours.Ours = true
	check(t, os.Mkdir(p.folder, 0o755))
	p.open(dbtest.Path(t))
	t.Cleanup(func() { check(t, p.db.Close()) })
	return p
}

var leapSecond = regexp.MustCompile(`"created_at":\s*"[^"]*:60`)

// asMade is a workflow as a program makes one: without the document it was read from. Only a
// document tells that a time is second 60, which no time.Time holds (rule 25).
func asMade(p *checkpoints.PausedWorkflow) *checkpoints.PausedWorkflow {
	if document, err := p.Document(); err == nil && leapSecond.Match(document) {
		return p
	}
	return &checkpoints.PausedWorkflow{
		RunID: p.RunID, Workflow: p.Workflow, PausedStageID: p.PausedStageID, Prompt: p.Prompt, Fields: p.Fields,
		OutputKey: p.OutputKey, WFState: p.WFState, StageResults: p.StageResults,
		CompletedStageIDs: p.CompletedStageIDs,
		Iterations:        p.Iterations, PriorDurationMS: p.PriorDurationMS, CreatedAt: p.CreatedAt,
	}
}

func (p *player) open(path string) {
	d, err := db.Open(ctx, path, db.Options{Synchronous: db.SyncNormal})
	check(p.t, err)
	p.path, p.db, p.store = path, d, checkpoints.NewStore(d, checkpoints.Options{})
}

func (p *player) Play(c *replay.Call) replay.Answer {
	value, err := p.call(c)
	a := replay.Answer{Outcome: replay.Outcome{OK: value}}
	if err != nil {
		a.Outcome = replay.Fails(err, kindOf(err))
	}
	model, instead := p.original.Play(c), p.ours.Play(c)
	same := (model.Err == nil) == (instead.Err == nil) && model.Kind == instead.Kind &&
		sameValues.Diff(decoded(p.t, model.OK), decoded(p.t, instead.OK)) == ""
	switch {
	case c.Op == "fs.list":
		a.Rule = 20
	case !same:
		a.Rule = max(p.original.Cause, p.ours.Cause, 15)
	}
	if a.Rule == 0 {
		return a
	}
	a.Instead, a.Model = &instead, &model
	return a
}

func decoded(t *testing.T, value any) any {
	text, err := json.Marshal(value)
	check(t, err)
	out, err := replay.Decode(text)
	check(t, err)
	return out
}

func kindOf(err error) string {
	switch {
	case errors.Is(err, db.ErrCorrupt):
		return "InvalidData"
	case errors.Is(err, db.ErrInvalid):
		return "InvalidInput"
	}
	return "not a kind of the original's"
}

func (p *player) call(c *replay.Call) (any, error) {
	id := c.Text("run_id")
	switch c.Op {
	case "reopen":
		if err := p.db.Close(); err != nil {
			return nil, err
		}
		p.open(p.path)
		return nil, nil
	case "save":
		read, err := checkpoints.Decode(c.Raw("paused"))
		if err != nil {
			return nil, err
		}
		return nil, p.store.Save(ctx, asMade(read))
	case "load":
		document, ok, err := p.store.LoadDocument(ctx, id)
		return p.value(document, ok, err)
	case "claim":
		claim, ok, err := p.store.Claim(ctx, id)
		if !ok {
			return nil, err
		}
		return p.value(claim.Document(), ok, err)
	case "complete":
		return nil, p.store.Complete(ctx, id)
	case "remove":
		return nil, p.store.Remove(ctx, id)
	case "recover_orphaned":
		return p.store.RecoverOrphaned(ctx)
	case "list":
		return p.store.List(ctx)
	}
	p.export()
	if c.Op == "fs.list" {
		return p.records(), nil
	}
	p.touch(c)
	if names := []string{c.Text("path"), c.Text("from"), c.Text("to")}; !slices.ContainsFunc(names, isRecord) &&
		strings.Join(names, "") != "" {
		return nil, nil // what is in no record file changes nothing here
	}
	check(p.t, p.db.Close())
	p.open(dbtest.Path(p.t))
	_, err := legacy.Import(ctx, p.db, legacy.Checkpoints, p.folder, legacy.Options{})
	return nil, err
}

// value is a document as the original's answers show it.
func (p *player) value(document []byte, ok bool, err error) (any, error) {
	if err != nil || !ok {
		return nil, err
	}
	canonical, err := checkpoints.Canonical(document)
	return json.RawMessage(canonical), err
}

// export brings the folder up to the store: record files are written again, the rest stays.
func (p *player) export() {
	out := filepath.Join(p.t.TempDir(), "export")
	_, err := legacy.Export(ctx, p.db, legacy.Checkpoints, out, legacy.Options{})
	check(p.t, err)
	exported, err := os.ReadDir(out)
	check(p.t, err)
	names := p.records()
	// what is in its way would have gone, or kept the original from writing it (rule 17)
	for _, e := range exported {
		names = append(names, e.Name())
	}
	for _, name := range names {
		check(p.t, os.RemoveAll(filepath.Join(p.folder, name)))
	}
	check(p.t, os.CopyFS(p.folder, os.DirFS(out)))
}

func isRecord(name string) bool {
	return strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".inflight")
}

// records are the names in the folder that an import takes.
func (p *player) records() []string {
	entries, err := os.ReadDir(p.folder)
	check(p.t, err)
	names := []string{}
	for _, e := range entries {
		name := e.Name()
		if !isRecord(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.folder, name)) // links are followed
		if err == nil && (name != ".json" && name != ".inflight" || checkpoints.Problem(text) == "") {
			names = append(names, name)
		}
	}
	return names
}

// touch makes an op on the folder.
func (p *player) touch(c *replay.Call) {
	at := filepath.Join(p.folder, c.Text("path"))
	var err error
	switch c.Op {
	case "fs.write", "fs.append":
		data := []byte(c.Text("text"))
		if c.Has("hex") {
			var err error
			data, err = hex.DecodeString(c.Text("hex"))
			check(p.t, err)
		}
		check(p.t, os.MkdirAll(filepath.Dir(at), 0o755))
		flags := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if c.Op == "fs.append" {
			flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
		}
		var f *os.File
		if f, err = os.OpenFile(at, flags, 0o644); err == nil {
			_, err = f.Write(data)
			err = errors.Join(err, f.Close())
		}
	case "fs.truncate":
		var bytes int64
		check(p.t, c.Unmarshal("bytes", &bytes))
		err = os.Truncate(at, bytes)
	case "fs.rename":
		err = os.Rename(filepath.Join(p.folder, c.Text("from")), filepath.Join(p.folder, c.Text("to")))
	case "fs.mkdir":
		err = os.Mkdir(at, 0o755)
	case "fs.remove":
		err = os.Remove(at)
	case "fs.remove_dir":
		if err = os.RemoveAll(at); err == nil && c.Text("path") == "" {
			err = os.Mkdir(p.folder, 0o755) // an import needs a folder
		}
	case "fs.symlink":
		err = os.Symlink(c.Text("target"), at)
	default:
		p.t.Fatalf("no such op: %s", c.Op)
	}
	// What the original had there may have gone another way here, and the other way round.
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		p.t.Fatal(err)
	}
}
