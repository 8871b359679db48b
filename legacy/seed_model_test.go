package legacy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"selvedge/internal/serdejson"
	"selvedge/runs"
	"selvedge/test/replay"
)

// A treeModel answers questions about a tree as a plain program would: all files in memory, each
// line decoded when it is asked for. Its rules off, it is the original's reader and gives the
// recorded answers; its rules on, it is what the store must answer after an import.
type treeModel struct {
	rules   modelRules
	dirs    []string
	files   []*modelFile
	now     time.Time
	holders map[string]runs.RunRef // with rules.ours: which run a file became
}

type modelRules struct {
	// ours: reading goes on behind a line that is not UTF-8; records of later versions end a run; runs
	// go by their agents and not by folders; links are runs of their own; an adopted run's end goes to
	// itself; every run is reached.
	ours bool
}

// A modelFile is a *.jsonl entry of an agent's folder.
type modelFile struct {
	dir, name string
	real      *modelContent // nil: can't be opened
	folder    bool
	link      bool // it, or its folder, is a link
	below     bool // its folder is a link
}

// modelContent is shared by a file and the links to it. What was decoded of so many bytes is kept.
type modelContent struct {
	bytes   []byte
	decoded int
	lines   []modelLine
	stopped bool
}

func readTree(t testing.TB, root string, rules modelRules, now time.Time) *treeModel {
	t.Helper()
	m := &treeModel{rules: rules, now: now}
	contents := map[string]*modelContent{}
	for _, dir := range namesIn(t, root) {
		at := root + "/" + dir
		info, err := os.Stat(at)
		if err != nil || !info.IsDir() {
			continue
		}
		m.dirs = append(m.dirs, dir)
		lstat, _ := os.Lstat(at)
		for _, name := range namesIn(t, at) {
			if !strings.HasSuffix(name, ".jsonl") || name == ".jsonl" {
				continue
			}
			linked := lstat.Mode()&os.ModeSymlink != 0
			f := &modelFile{dir: dir, name: name, link: linked, below: linked}
			m.files = append(m.files, f)
			full := at + "/" + name
			if own, err := os.Lstat(full); err == nil && own.Mode()&os.ModeSymlink != 0 {
				f.link = true
			}
			real, err := filepath.EvalSymlinks(full)
			if err != nil {
				continue
			}
			if rules.ours {
				real = full
			}
			text, err := os.ReadFile(full)
			if f.folder = errors.Is(err, syscall.EISDIR); f.folder || err != nil {
				continue
			}
			if contents[real] == nil {
				contents[real] = &modelContent{bytes: text}
			}
			f.real = contents[real]
		}
	}
	return m
}

func namesIn(t testing.TB, dir string) []string {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func (f *modelFile) path() string { return f.dir + "/" + f.name }

func (f *modelFile) stem() string { return strings.TrimSuffix(f.name, ".jsonl") }

// A modelLine is a line of a trace.
type modelLine struct {
	record runs.Record // nil for one that is no record
	known  bool        // to the seed version
	blank  bool
}

func readLine(text []byte) modelLine {
	record, err := runs.ParseRecord(text)
	_, later := record.(runs.Unknown)
	return modelLine{
		record: record, known: err == nil && !later,
		blank: len(bytes.TrimSpace(text)) == 0,
	}
}

// lines are the lines that the model reads.
func (m *treeModel) lines(f *modelFile) (lines []modelLine, stopped bool) {
	c := f.real
	if c == nil || len(c.bytes) == 0 {
		return nil, false
	}
	if c.decoded == len(c.bytes) {
		return c.lines, c.stopped
	}
	c.decoded, c.lines, c.stopped = len(c.bytes), nil, false
	for text := range bytes.SplitSeq(bytes.TrimSuffix(c.bytes, []byte{'\n'}), []byte{'\n'}) {
		if c.stopped = !m.rules.ours && !utf8.Valid(text); c.stopped {
			break
		}
		c.lines = append(c.lines, readLine(text))
	}
	return c.lines, c.stopped
}

// records are the decoded records, in the original's own form.
func (m *treeModel) records(f *modelFile) []any {
	list := []any{}
	lines, _ := m.lines(f)
	for _, line := range lines {
		if line.known {
			list = append(list, jsonOf(line.record))
		}
	}
	return list
}

func jsonOf(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	decoded, err := replay.Decode(text)
	if err != nil {
		panic(err)
	}
	return decoded
}

func digestOf[R json.Marshaler](records []R) string {
	sum := sha256.New()
	for i, r := range records {
		line, err := r.MarshalJSON()
		if err != nil {
			panic(err)
		}
		line, _ = serdejson.AppendCanonical(nil, line)
		if i > 0 {
			sum.Write([]byte{'\n'})
		}
		sum.Write(line)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// inventory counts the lines of a file.
func (m *treeModel) inventory(f *modelFile) map[string]int64 {
	lines, _ := m.lines(f)
	count := map[string]int64{"blank": 0, "started": 0, "turn": 0, "ended": 0, "skipped": 0}
	for _, line := range lines {
		switch {
		case line.blank:
			count["blank"]++
		case line.known:
			count[line.record.RecordKind()]++
		default:
			count["skipped"]++
		}
	}
	return count
}

// A modelSummary is a run as lists show it.
type modelSummary struct {
	file    *modelFile
	json    map[string]any
	started time.Time
	ended   time.Time // zero: open
	status  string
}

// summary is nil for a run without a started record.
func (m *treeModel) summary(f *modelFile) *modelSummary {
	s := &modelSummary{file: f, status: "in_progress"}
	turns := 0
	lines, _ := m.lines(f)
	for _, line := range lines {
		switch r := line.record.(type) {
		case runs.Started:
			text := jsonOf(r).(map[string]any)
			ended, open := s.json["ended_at"]
			s.json = map[string]any{
				"run_id": r.RunID, "agent_id": r.AgentID, "intent": r.Intent,
				"started_at": text["started_at"],
			}
			if open {
				s.json["ended_at"] = ended
			}
			s.started = r.StartedAt
		case runs.Ended:
			s.end("completed", r.EndedAt, jsonOf(r).(map[string]any)["ended_at"])
			if r.Termination.Outcome == nil {
				s.status = "incomplete"
			}
		case runs.Turn:
			turns++
		case runs.Unknown:
			if m.rules.ours {
				s.later(r)
			}
		}
	}
	if s.started.IsZero() && (s.json == nil || s.json["intent"] == nil) {
		return nil
	}
	s.json["status"], s.json["turn_count"] = s.status, json.Number(jsonNumber(turns))
	return s
}

func jsonNumber(n int) string { text, _ := json.Marshal(n); return string(text) }

func (s *modelSummary) end(status string, at time.Time, text any) {
	if s.json == nil {
		s.json = map[string]any{}
	}
	s.status, s.ended, s.json["ended_at"] = status, at, text
}

// later folds in a record that only later versions understand.
func (s *modelSummary) later(r runs.Unknown) {
	var end struct {
		Termination struct{ Kind string }
		EndedAt     string `json:"ended_at"`
	}
	switch {
	case strings.HasPrefix(r.Kind, "cancellation_") && s.ended.IsZero():
		s.status = "cancellation_pending"
	case r.Kind == "ended" && json.Unmarshal(r.Raw, &end) == nil && end.Termination.Kind == "cancelled":
		at, err := time.Parse(time.RFC3339Nano, end.EndedAt)
		if err == nil {
			s.end("cancelled", at, end.EndedAt)
		}
	}
}

// reachable reports whether an id of the original leads to the name.
func reachable(name string) bool { return utf8.ValidString(name) && seedName(name) == name }

// group is what retention and lists go by: the folder, or our agent.
func (m *treeModel) group(f *modelFile) string {
	if m.rules.ours {
		return m.holders[f.path()].AgentID
	}
	return f.dir
}

func (m *treeModel) summaries() (list []*modelSummary) {
	for _, f := range m.files {
		if s := m.summary(f); s != nil {
			list = append(list, s)
		}
	}
	return list
}

// lists are the runs of each folder, newest first; null where no id leads to the folder.
func (m *treeModel) lists() map[string]any {
	lists := map[string]any{}
	for _, dir := range m.dirs {
		lists[dir] = []any{}
	}
	for _, s := range m.summaries() {
		lists[s.file.dir] = append(lists[s.file.dir].([]any), s.json)
	}
	for dir, list := range lists {
		if !m.rules.ours && !reachable(dir) {
			lists[dir] = nil
			continue
		}
		sortList(list.([]any))
	}
	return lists
}

// sortList puts a list in its order; ties, which are in directory order in the original, in one
// that is always the same.
func sortList(list []any) {
	slices.SortStableFunc(list, func(a, b any) int {
		x, y := a.(map[string]any), b.(map[string]any)
		if c := startOf(y).Compare(startOf(x)); c != 0 {
			return c
		}
		return bytes.Compare(replay.Encode(a), replay.Encode(b))
	})
}

// startOf is zero for a time that is none, in a falsified answer.
func startOf(summary map[string]any) time.Time {
	var s runs.RunSummary
	if err := s.UnmarshalJSON(replay.Encode(map[string]any{
		"run_id": "", "agent_id": "", "intent": "", "status": "", "turn_count": 0,
		"started_at": summary["started_at"],
	})); err != nil {
		return time.Time{}
	}
	return s.StartedAt
}

// gc gives the files that retention removes.
func (m *treeModel) gc(maxPerAgent uint64, maxAgeDays int64) (removed []string) {
	cutoff := m.now.Add(-time.Duration(maxAgeDays) * 24 * time.Hour)
	byGroup := map[string][]*modelSummary{}
	for _, s := range m.summaries() {
		byGroup[m.group(s.file)] = append(byGroup[m.group(s.file)], s)
	}
	for _, list := range byGroup {
		slices.SortStableFunc(list, func(a, b *modelSummary) int {
			order := b.started.Compare(a.started)
			if m.rules.ours { // an agent may have two folders: its runs of one moment go by their ids
				order = cmp.Or(order, cmp.Compare(m.holders[a.file.path()].RunID, m.holders[b.file.path()].RunID))
			}
			return order
		})
		rank := uint64(0)
		for _, s := range list {
			if s.status != "completed" && s.status != "incomplete" {
				continue
			}
			if rank >= maxPerAgent || s.ended.Before(cutoff) {
				removed = append(removed, s.file.path())
			}
			rank++
		}
	}
	slices.Sort(removed)
	return removed
}

// adopt ends open runs as the model's rules say, and gives their number.
func (m *treeModel) adopt() (adopted int) {
	before := len(m.files)
	for _, f := range m.files[:before] {
		s := m.summary(f)
		if s == nil || s.status != "in_progress" {
			continue
		}
		line, err := (runs.Ended{
			RunID: s.json["run_id"].(string), AgentID: s.json["agent_id"].(string),
			EndedAt: m.now,
		}).MarshalJSON()
		if err != nil {
			panic(err)
		}
		target := f
		if !m.rules.ours {
			target = m.fileOf(runs.RunRef{AgentID: s.json["agent_id"].(string), RunID: s.json["run_id"].(string)})
		}
		if target == nil {
			continue
		}
		content := target.real
		if n := len(content.bytes); n > 0 && content.bytes[n-1] != '\n' {
			content.bytes = append(content.bytes, '\n')
		}
		content.bytes = append(append(content.bytes, line...), '\n')
		adopted++
	}
	return adopted
}

// fileOf is where the original appends to a run, made if it is missing; nil where it can't.
func (m *treeModel) fileOf(e runs.RunRef) *modelFile {
	dir, name, _ := strings.Cut(runPath(e, seedName), "/")
	if len(dir) > maxName || len(name) > maxName {
		return nil
	}
	for _, f := range m.files {
		if f.dir == dir && f.name == name {
			if f.real == nil && !f.folder { // a dangling link: its target is made
				f.real = &modelContent{}
			}
			if f.real == nil {
				return nil
			}
			return f
		}
	}
	if !slices.Contains(m.dirs, dir) {
		m.dirs = append(m.dirs, dir)
	}
	f := &modelFile{dir: dir, name: name, real: &modelContent{}}
	m.files = append(m.files, f)
	return f
}

// answers are everything that is recorded about a tree. It ends by adopting, so it can be asked once.
func (m *treeModel) answers(limits []runs.RetentionConfig) map[string]any {
	all := map[string]any{"lists": m.lists()}
	traces, inventories := map[string]any{}, map[string]any{}
	for _, f := range m.files {
		inventories[f.path()] = jsonOf(m.inventory(f))
		lines, _ := m.lines(f)
		var records []runs.Record
		for _, line := range lines {
			if line.known {
				records = append(records, line.record)
			}
		}
		switch {
		case f.real == nil && !f.folder, f.real == nil && m.rules.ours,
			!m.rules.ours && (!reachable(f.dir) || !reachable(f.stem())):
			traces[f.path()] = nil
		default:
			traces[f.path()] = map[string]any{"records": m.records(f), "sha256": digestOf(records)}
		}
	}
	all["traces"], all["inventories"] = traces, inventories
	for _, c := range limits {
		removed := m.gc(c.MaxPerAgent, c.MaxAgeDays)
		all[gcKey(c)] = map[string]any{"removed": jsonOf(len(removed)), "remaining": anyList(m.without(removed))}
	}
	all["adopted"] = jsonOf(m.adopt())
	all["lists after adoption"] = m.lists()
	all["adopted again"] = jsonOf(m.adopt())
	removed := m.gc(3, 36500)
	all["removed after adoption"] = jsonOf(len(removed))
	all["files after adoption"] = anyList(m.without(removed))
	return all
}

func gcKey(c runs.RetentionConfig) string { return "gc " + string(replay.Encode(jsonOf(c))) }

// without are the files but those removed, linked folders not followed. Ours has what became a run.
func (m *treeModel) without(removed []string) []string {
	var left []string
	for _, f := range m.files {
		hidden := f.below
		if m.rules.ours {
			hidden = f.real == nil
		}
		if !slices.Contains(removed, f.path()) && !hidden {
			left = append(left, f.path())
		}
	}
	slices.Sort(left)
	return left
}

func anyList(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// totals are over regular files of real folders.
func (m *treeModel) totals() map[string]any {
	t := map[string]int64{
		"files": 0, "bytes": 0, "started": 0, "turns": 0, "ended": 0, "skipped_lines": 0,
		"files_stopped_early": 0, "traces_with_summary": 0,
	}
	for _, f := range m.files {
		if f.link || f.real == nil {
			continue
		}
		t["files"]++
		t["bytes"] += int64(len(f.real.bytes))
		n := m.inventory(f)
		t["started"] += n["started"]
		t["turns"] += n["turn"]
		t["ended"] += n["ended"]
		t["skipped_lines"] += n["skipped"]
		if _, stopped := m.lines(f); stopped {
			t["files_stopped_early"]++
		}
		if m.summary(f) != nil {
			t["traces_with_summary"]++
		}
	}
	return jsonOf(t).(map[string]any)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
