package runs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"selvedge/runs"
	"selvedge/test/replay"
)

// seedName is the file name that the original makes of an id.
func seedName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == 0 {
			return '_'
		}
		return r
	}, id)
	if name = strings.Trim(name, "."); name == "" {
		return "_"
	}
	return name
}

// A traceFile is a run as the models see it: the name of its folder, its own name, its text.
type traceFile struct {
	agent, run string
	text       []byte
}

// A shelf is where a model keeps trace files.
type shelf interface {
	// files gives all, by agent and then by run.
	files() ([]traceFile, error)
	// file gives one; found is false when nothing is there, and its text is empty when it can't be read.
	file(agent, run string) (f traceFile, found bool)
	append(agent, run string, text []byte) error
	remove(agent, run string) error
	// used reports whether anything was ever written.
	used() bool
}

// A seedModel is the original's run store in plain Go over files, one call a method. Its rules off,
// it does what the original does; its rules on, it does what ours does on purpose.
type seedModel struct {
	shelf  shelf
	limits runs.RetentionConfig
	now    func() time.Time
	rules  seedRules
}

// seedRules are our differences, each with its number in testdata/legacy/README.md.
type seedRules struct {
	on   bool
	used map[int]bool // those that made a difference so far
}

func (r *seedRules) apply(number int) bool {
	if r.on {
		r.used[number] = true
	}
	return r.on
}

// errOutOfRange stands for a panic of the original.
var errOutOfRange = errors.New("a panic of the original")

type modelRecord struct {
	line   map[string]any // the record as JSON
	record runs.Record    // nil for one of later versions
}

func (r modelRecord) text(name string) string {
	text, _ := r.line[name].(string)
	return text
}

func (m *seedModel) load(f traceFile) []modelRecord {
	var list []modelRecord
	for line := range bytes.Lines(f.text) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if !utf8.Valid(line) {
			if m.rules.apply(20) {
				continue
			}
			break
		}
		record, err := runs.DecodeSeed(line)
		if err == nil {
			if line, err = record.MarshalJSON(); err != nil {
				panic(err)
			}
		}
		value, err := replay.Decode(line)
		if members, ok := value.(map[string]any); ok && err == nil {
			list = append(list, modelRecord{line: members, record: record})
		}
	}
	return list
}

type modelSummary struct {
	RunID     string `json:"run_id"`
	AgentID   string `json:"agent_id"`
	Intent    string `json:"intent"`
	StartedAt string `json:"started_at"`
	EndedAt   string `json:"ended_at,omitempty"`
	Status    string `json:"status"`
	TurnCount int    `json:"turn_count"`

	started, ended time.Time
}

func (m *seedModel) summarize(f traceFile) (s modelSummary, ok bool) {
	s.Status = "in_progress"
	for _, r := range m.load(f) {
		switch record := r.record.(type) {
		case runs.Started:
			ok = true
			s.RunID, s.AgentID, s.Intent, s.StartedAt, s.started = record.RunID, record.AgentID, record.Intent,
				r.text("started_at"), record.StartedAt
		case runs.Turn:
			s.TurnCount++
		case runs.Ended:
			s.Status = "completed"
			if record.Termination.Outcome == nil {
				s.Status = "incomplete"
			}
			s.EndedAt, s.ended = r.text("ended_at"), record.EndedAt
		case nil:
			m.later(r, &s)
		}
	}
	return s, ok
}

// later is what records of later versions of the original say of a run.
func (m *seedModel) later(r modelRecord, s *modelSummary) {
	termination, _ := r.line["termination"].(map[string]any)
	switch {
	case r.text("record") == "ended" && termination["kind"] == "cancelled" && m.rules.apply(26):
		s.Status, s.EndedAt = "cancelled", r.text("ended_at")
	case strings.HasPrefix(r.text("record"), "cancellation_re") && s.EndedAt == "" && m.rules.apply(26):
		s.Status = "cancellation_pending"
	}
}

func (m *seedModel) appendRecords(agent, run string, records []runs.Record) error {
	if len(records) == 0 {
		return nil
	}
	var text []byte
	for _, r := range records {
		line, err := r.MarshalJSON()
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	return m.shelf.append(seedName(agent), seedName(run), text)
}

func (m *seedModel) trace(f traceFile, found bool) any {
	if !found {
		return nil
	}
	list := []any{}
	for _, r := range m.load(f) {
		if r.record != nil {
			list = append(list, r.line)
		}
	}
	return list
}

func (m *seedModel) resolve(run string) (traceFile, bool, error) {
	files, err := m.shelf.files()
	i := slices.IndexFunc(files, func(f traceFile) bool { return f.run == seedName(run) })
	if i < 0 {
		return traceFile{}, false, err
	}
	return files[i], true, nil
}

func (m *seedModel) getRunTrace(run string) (any, error) {
	f, found, err := m.resolve(run)
	return m.trace(f, found), err
}

func (m *seedModel) getRunTraceFor(agent, run string) any {
	return m.trace(m.shelf.file(seedName(agent), seedName(run)))
}

func (m *seedModel) agentForRun(run string) (any, error) {
	f, found, err := m.resolve(run)
	if !found {
		return nil, err
	}
	return f.agent, nil
}

func (m *seedModel) listRuns(agent string) ([]modelSummary, error) {
	list := []modelSummary{}
	files, err := m.shelf.files()
	for _, f := range files {
		if f.agent != seedName(agent) {
			continue
		}
		if s, ok := m.summarize(f); ok {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, newestFirst)
	return list, err
}

// newestFirst orders a list; where two runs started at once the original has no order.
func newestFirst(a, b modelSummary) int {
	if !a.started.Equal(b.started) {
		return b.started.Compare(a.started)
	}
	if a.RunID != b.RunID {
		return strings.Compare(a.RunID, b.RunID)
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

func (m *seedModel) gc() (removed int, err error) {
	if !m.shelf.used() {
		return 0, nil
	}
	const msPerDay = 86400 * 1000
	if days := m.limits.MaxAgeDays; days > (1<<63-1)/msPerDay || days < -(1<<63-1)/msPerDay {
		return 0, errOutOfRange
	}
	now := m.now()
	cutoff := time.Unix(now.Unix()-m.limits.MaxAgeDays*86400, int64(now.Nanosecond())).UTC()
	if year := cutoff.Year(); year < -262143 || year > 262142 {
		return 0, errOutOfRange
	}
	type run struct {
		file    traceFile
		summary modelSummary
	}
	files, err := m.shelf.files()
	byAgent := map[string][]run{}
	for _, f := range files {
		if s, ok := m.summarize(f); ok && (s.Status == "completed" || s.Status == "incomplete") {
			byAgent[f.agent] = append(byAgent[f.agent], run{f, s})
		}
	}
	for _, list := range byAgent {
		slices.SortStableFunc(list, func(a, b run) int { return b.summary.started.Compare(a.summary.started) })
		for rank, r := range list {
			if uint64(rank) >= m.limits.MaxPerAgent || r.summary.ended.Before(cutoff) {
				err = errors.Join(err, m.shelf.remove(r.file.agent, r.file.run))
				removed++
			}
		}
	}
	return removed, err
}

func (m *seedModel) adoptOrphans() (adopted int, err error) {
	files, err := m.shelf.files()
	now := m.now()
	for _, f := range files {
		s, ok := m.summarize(f)
		if !ok || s.Status != "in_progress" {
			continue
		}
		agent, run := s.AgentID, s.RunID
		if (seedName(agent) != f.agent || seedName(run) != f.run) && m.rules.apply(19) {
			agent, run = f.agent, f.run
		}
		if m.appendRecords(agent, run, []runs.Record{runs.Ended{
			RunID: s.RunID, AgentID: s.AgentID,
			EndedAt: now,
		}}) == nil {
			adopted++
		}
	}
	return adopted, err
}

// A folder is the shelf of the original: real files.
type folder struct{ root string }

func (s folder) path(agent, run string) string { return filepath.Join(s.root, agent, run+".jsonl") }

func (s folder) used() bool {
	entries, err := os.ReadDir(s.root)
	return err == nil && entries != nil
}

func (s folder) files() (list []traceFile, err error) {
	agents, err := os.ReadDir(s.root)
	if err != nil {
		return nil, nil //nolint:nilerr // as in the original
	}
	for _, agent := range agents {
		entries, err := os.ReadDir(filepath.Join(s.root, agent.Name()))
		if err != nil {
			continue
		}
		for _, entry := range entries {
			run, ok := strings.CutSuffix(entry.Name(), ".jsonl")
			info, err := os.Stat(s.path(agent.Name(), run))
			if !ok || run == "" || err != nil || info.IsDir() {
				continue
			}
			f, _ := s.file(agent.Name(), run)
			list = append(list, f)
		}
	}
	return list, nil
}

func (s folder) file(agent, run string) (traceFile, bool) {
	path := s.path(agent, run)
	if _, err := os.Stat(path); err != nil {
		return traceFile{}, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		text = nil
	}
	return traceFile{agent: agent, run: run, text: text}, true
}

func (s folder) append(agent, run string, text []byte) error {
	_, err := os.Stat(s.root)
	if err := os.MkdirAll(filepath.Join(s.root, agent), 0o700); err != nil {
		return err
	}
	if err != nil {
		if err := os.WriteFile(filepath.Join(s.root, ".nobackup"),
			[]byte("car run traces - excluded from backup\n"), 0o600); err != nil {
			return err
		}
	}
	old, _ := s.file(agent, run)
	file, err := os.OpenFile(s.path(agent, run), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if len(old.text) > 0 && old.text[len(old.text)-1] != '\n' {
		text = append([]byte("\n"), text...)
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

func (s folder) remove(agent, run string) error { return os.Remove(s.path(agent, run)) }

// A table is the shelf with our rules: names are any text, and nothing stands in anybody's way.
type table struct {
	rows  map[runs.RunRef][]byte
	wrote bool
	rules *seedRules
}

func (s *table) used() bool { return s.wrote }

func (s *table) files() ([]traceFile, error) {
	var list []traceFile
	for ref, text := range s.rows {
		list = append(list, traceFile{agent: ref.AgentID, run: ref.RunID, text: text})
	}
	slices.SortFunc(list, func(a, b traceFile) int {
		if a.agent != b.agent {
			return strings.Compare(a.agent, b.agent)
		}
		return strings.Compare(a.run, b.run)
	})
	return list, nil
}

func (s *table) file(agent, run string) (traceFile, bool) {
	text, found := s.rows[runs.RunRef{AgentID: agent, RunID: run}]
	return traceFile{agent: agent, run: run, text: text}, found
}

func (s *table) append(agent, run string, text []byte) error {
	if len(agent) > 255 || len(run) > 249 {
		s.rules.apply(16)
	}
	if len(agent) > 1024 || len(run) > 1024 {
		return errors.New("too long")
	}
	ref := runs.RunRef{AgentID: agent, RunID: run}
	old := slices.Clip(s.rows[ref])
	if len(old) > 0 && old[len(old)-1] != '\n' {
		old = append(old, '\n')
	}
	s.rows[ref], s.wrote = append(old, text...), true
	return nil
}

func (s *table) remove(agent, run string) error {
	delete(s.rows, runs.RunRef{AgentID: agent, RunID: run})
	return nil
}
