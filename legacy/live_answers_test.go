package legacy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/internal/txn"
	"selvedge/runs/live"
	"selvedge/test/replay"
)

// recordedLive is NAME.expected.json.
type recordedLive struct {
	Sessions       []recordedSession
	SessionsListed []string `json:"sessions_listed"`
	Inventory      *struct {
		Runs, Events int
		Files, Bytes int64
		Readable     int            `json:"runs_files_readable"`
		Unreadable   int            `json:"runs_files_unreadable"`
		ByStatus     map[string]int `json:"runs_by_status"`
		ByType       map[string]int `json:"events_by_type"`
	}
}

type recordedSession struct {
	ID     string
	Exists bool
	Load   *struct {
		ID, Err  *string
		Messages int
	}
	RunsFile   string          `json:"runs_file"`
	RunRecords json.RawMessage `json:"run_records"`
	List       []string
}

// recordedRuns is what the original makes of a file of its own.
type recordedRuns struct {
	Err          *string
	Loaded       int
	CountsInFile []uint64 `json:"event_counts_in_file"`
	AfterRestore *int     `json:"runs_after_restore"`
	Runs         []recordedRun
}

type recordedRun struct {
	Events        int
	ByType        map[string]int  `json:"events_by_type"`
	SHA256        string          `json:"events_sha256"`
	Records       json.RawMessage `json:"event_records"`
	FirstSequence *uint64         `json:"first_sequence"`
	LastSequence  *uint64         `json:"last_sequence"`
	Snapshot      map[string]any
}

// liveAnswers is what an import of every file by itself, into a scope of its own, left in the store.
type liveAnswers struct {
	dir   string
	files map[string]*liveAnswer // by path; nil where there is no file
}

type liveAnswer struct {
	inFile      []live.RunRecord
	records     []live.RunRecord
	quarantined int
}

func importSessions(t *testing.T, dir string, expected []byte) *liveAnswers {
	var recorded recordedLive
	decodeNumbers(t, expected, &recorded)
	d := emptyFile(t)
	a := &liveAnswers{dir: dir, files: map[string]*liveAnswer{}}
	for _, s := range recorded.Sessions {
		path := s.path(dir)
		if _, done := a.files[path]; done {
			continue
		}
		a.files[path] = nil
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || path == "" {
			continue
		}
		answer := &liveAnswer{}
		answer.inFile = recordsIn(text)
		answer.quarantined = len(importLive(t, d, path, treeOf(t, path, text)).Quarantined)
		if answer.records, err = live.NewStore(d,
			live.Options{Scope: path}).Records(context.Background()); err != nil {
			t.Fatal(err)
		}
		a.files[path] = answer
	}
	return a
}

// path is where a session's runs are: in its file, or with a later version in its document or else
// its runs alone.
func (s *recordedSession) path(dir string) string {
	if s.RunsFile == "" {
		return laterFile(dir, s.ID)
	}
	return "runs/" + sessionFile(s.ID)
}

// liveVerdict collects what is wrong with a tree's answers.
type liveVerdict struct {
	problems []string
	tally    replay.Tally

	runs, events, readable, unreadable int
	byStatus, byType                   map[string]int
}

func (v *liveVerdict) wrong(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// compare compares with what the original answered.
func (a *liveAnswers) compare(t *testing.T, expected []byte) ([]string, replay.Tally) {
	var recorded recordedLive
	decodeNumbers(t, expected, &recorded)
	v := &liveVerdict{
		tally: replay.Tally{Judged: map[int]int{}}, byStatus: map[string]int{},
		byType: map[string]int{},
	}
	counted := map[string]bool{}
	for _, s := range recorded.Sessions {
		path := s.path(a.dir)
		if s.RunsFile != "" {
			a.compareDocument(v, &s)
			if s.RunsFile != path {
				v.wrong("%q: the runs are in %q, not in %q", s.ID, path, s.RunsFile)
			}
		}
		first := !counted[path]
		counted[path] = true
		a.compareSession(t, v, &s, a.files[path], first)
	}
	if i := recorded.Inventory; i != nil {
		a.compareListed(v, recorded.SessionsListed)
		if files, size := a.size(t); files != i.Files || size != i.Bytes {
			v.wrong("the tree has %d files of %d bytes, not %d of %d", files, size, i.Files, i.Bytes)
		}
		if i.Runs != v.runs || i.Events != v.events || i.Readable != v.readable || i.Unreadable != v.unreadable ||
			!maps.Equal(i.ByStatus, v.byStatus) || !maps.Equal(i.ByType, v.byType) {
			v.wrong("the inventory is %+v, not %+v", *v, *i)
		}
	}
	return v.problems, v.tally
}

func (a *liveAnswers) compareSession(t *testing.T, v *liveVerdict, s *recordedSession, answer *liveAnswer,
	first bool,
) {
	var runs recordedRuns
	if s.RunRecords[0] == '{' {
		decodeNumbers(t, s.RunRecords, &runs)
	}
	if first && runs.Err != nil {
		v.unreadable++
	}
	switch {
	case answer == nil:
		if string(s.RunRecords) != "null" && runs.Err == nil {
			v.wrong("%q: there is no file, and the original read one", s.ID)
		}
		v.tally.Compared++
	// rule 21: what can be read is here, and the quarantine names the rest, or it is a later event
	case runs.Err != nil:
		v.tally.Judged[21]++
		if answer.quarantined == 0 && !strings.Contains(*runs.Err, "unknown variant") {
			v.wrong("%q: the original says %s, and nothing is in quarantine", s.ID, *runs.Err)
		}
	case s.RunRecords[0] == '[':
		if d := diffJSON(t, s.RunRecords, answer.records); d != "" {
			v.wrong("%q: %s", s.ID, d)
		}
		v.tally.Compared++
	case s.RunRecords[0] != '{':
		v.wrong("%q: the original read no file, and there is one", s.ID)
	default:
		v.compareRuns(t, s, answer, &runs)
		v.tally.Compared++
		if first {
			v.count(&runs)
		}
	}
}

func (v *liveVerdict) count(runs *recordedRuns) {
	v.readable++
	for _, run := range runs.Runs {
		v.runs++
		v.events += run.Events
		v.byStatus[fmt.Sprint(run.Snapshot["status"])]++
		for kind, n := range run.ByType {
			v.byType[kind] += n
		}
	}
}

// compareDocument compares what is said about the session's own file, which is left where it is.
func (a *liveAnswers) compareDocument(v *liveVerdict, s *recordedSession) {
	path := filepath.Join(a.dir, sessionFile(s.ID))
	_, err := os.Stat(path)
	if exists := err == nil; exists != s.Exists || (s.Load != nil) != exists {
		v.wrong("%q: its document exists: %v, %+v", s.ID, exists, s.Load)
	}
	var document struct {
		ID       string
		Messages []any
	}
	text, err := os.ReadFile(path)
	if s.Load != nil && s.Load.ID != nil &&
		(err != nil || json.Unmarshal(text, &document) != nil || document.ID != *s.Load.ID ||
			len(document.Messages) != s.Load.Messages) {
		v.wrong("%q: its document is of %q, not %q: %v", s.ID, document.ID, *s.Load.ID, err)
	}
}

func (a *liveAnswers) compareListed(v *liveVerdict, want []string) {
	paths, err := filepath.Glob(filepath.Join(a.dir, "*.json"))
	for i := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(paths[i]), ".json")
	}
	if slices.Sort(paths); err != nil || !slices.Equal(paths, want) {
		v.wrong("the sessions are %q, not %q: %v", paths, want, err)
	}
}

func (a *liveAnswers) size(t *testing.T) (files, size int64) {
	err := filepath.WalkDir(a.dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files, size = files+1, size+info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, size
}

// compareRuns compares runs with what the original had after restoring them; counts go by rule 3.
// Ids that can't be one here are in quarantine (rule 16).
func (v *liveVerdict) compareRuns(t *testing.T, s *recordedSession, answer *liveAnswer, want *recordedRuns) {
	var countsInFile []uint64
	counts := map[string]uint64{}
	for _, e := range answer.inFile {
		countsInFile = append(countsInFile, e.Snapshot.EventCount)
		counts[e.Snapshot.ID] = e.Snapshot.EventCount
	}
	if len(answer.inFile) != want.Loaded || want.CountsInFile != nil &&
		!slices.Equal(countsInFile, want.CountsInFile) {
		v.wrong("%q: the file has %d records with the counts %d, not %d and %d", s.ID, len(answer.inFile),
			countsInFile, want.Loaded, want.CountsInFile)
	}
	if want.AfterRestore != nil && *want.AfterRestore != len(want.Runs) {
		v.wrong("%q: %d runs were restored, not %d", s.ID, len(want.Runs), *want.AfterRestore)
	}
	byID := map[string]*live.RunRecord{}
	for i := range answer.records {
		byID[answer.records[i].Snapshot.ID] = &answer.records[i]
	}
	type placed struct {
		created uint64
		id      string
	}
	var order []placed
	for _, run := range want.Runs {
		var snapshot live.RunSnapshot
		if err := json.Unmarshal(replay.Encode(run.Snapshot), &snapshot); err != nil {
			v.wrong("%q: %v", s.ID, err)
			continue
		}
		order = append(order, placed{snapshot.CreatedAtMs, snapshot.ID})
		if txn.CheckID("run", snapshot.ID) != nil {
			v.tally.Judged[16]++
			continue
		}
		ours := byID[snapshot.ID]
		if ours == nil {
			v.wrong("%q: run %q is not here", s.ID, snapshot.ID)
			continue
		}
		delete(byID, snapshot.ID)
		v.compareRun(t, ours, counts[snapshot.ID], &run)
	}
	for id := range byID {
		v.wrong("%q: run %q is here, and the original doesn't have it", s.ID, id)
	}
	slices.SortFunc(order, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.created, b.created),
			cmp.Compare(a.id, b.id))
	})
	var ids []string
	for _, p := range order {
		ids = append(ids, p.id)
	}
	if s.List != nil && !slices.Equal(ids, s.List) {
		v.wrong("%q: the order is %q, not %q", s.ID, ids, s.List)
	}
}

// compareRun compares a run; inFile is the count that its record names.
func (v *liveVerdict) compareRun(t *testing.T, ours *live.RunRecord, inFile uint64, want *recordedRun) {
	id := ours.Snapshot.ID
	count := max(inFile, uint64(len(ours.Events)))
	var ends [2]*uint64
	if n := len(ours.Events); n > 0 {
		ends = [2]*uint64{&ours.Events[0].Sequence, &ours.Events[n-1].Sequence}
		count = max(count, *ends[1], *ends[1]+1) // there is nothing behind the last number
	}
	for i, recorded := range []*uint64{want.FirstSequence, want.LastSequence} {
		if recorded != nil && (ends[i] == nil || *recorded != *ends[i]) {
			v.wrong("run %q: an end of the sequences is not %d", id, *recorded)
		}
	}
	if count != uint64(want.Events) {
		v.tally.Judged[3]++
	}
	snapshot := ours.Snapshot
	snapshot.Further = nil
	if snapshot.EventCount != count || want.Events != len(ours.Events) {
		v.wrong("run %q has %d events and the count %d, not %d and %d", id, len(ours.Events), snapshot.EventCount,
			want.Events, count)
	}
	snapshot.EventCount = uint64(len(ours.Events))
	if d := diffJSON(t, replay.Encode(want.Snapshot), snapshot); d != "" {
		v.wrong("run %q: %s", id, d)
	}
	if got := sumOfEvents(t, ours.Events); got != want.SHA256 {
		v.wrong("the events of run %q differ", id)
	}
	byType := map[string]int{}
	for _, e := range ours.Events {
		byType[e.Event.Type()]++
	}
	if want.ByType != nil && !maps.Equal(byType, want.ByType) {
		v.wrong("run %q has the events %v, not %v", id, byType, want.ByType)
	}
	if want.Records != nil {
		if d := diffJSON(t, want.Records, ours.Events); d != "" {
			v.wrong("the events of run %q: %s", id, d)
		}
	}
}

func diffJSON(t *testing.T, want []byte, got any) string {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := replay.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := replay.Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	if list, ok := theirs.([]any); ok && len(list) == 0 && bytes.Equal(text, []byte("null")) {
		return ""
	}
	return (replay.Comparison{}).Diff(theirs, ours)
}

// TestFalsifiedAnswersOfALiveTreeAreNoticed changes every recorded answer of a tree, one at a time.
func TestFalsifiedAnswersOfALiveTreeAreNoticed(t *testing.T) {
	trees, err := replay.Trees("live")
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		if tree.Name != "live/small" {
			continue
		}
		root := t.TempDir()
		if err := tree.Unpack(root); err != nil {
			t.Fatal(err)
		}
		answers := importSessions(t, onlyFolder(t, root), tree.Expected)
		honest, err := replay.Decode(tree.Expected)
		if err != nil {
			t.Fatal(err)
		}
		for _, about := range []string{"tree", "seed", "made_with_session_ids"} { // how the files were made
			delete(honest.(map[string]any), about)
		}
		lies := 0
		eachLie(honest, "", func(what string) {
			lies++
			if problems, _ := answers.compare(t, replay.Encode(honest)); len(problems) == 0 {
				t.Errorf("nobody noticed that %s is false", what)
			}
		})
		if problems, _ := answers.compare(t, replay.Encode(honest)); lies < 200 || len(problems) > 0 {
			t.Errorf("%d lies; without them: %v", lies, problems)
		}
		t.Logf("%d lies noticed", lies)
	}
}
