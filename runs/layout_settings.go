package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/tree"
	"selvedge/internal/txn"
)

const (
	sqlPutConfig = `INSERT INTO import_settings (source, raw, checksum) VALUES (?, ?, ?)
ON CONFLICT (source) DO UPDATE SET raw = excluded.raw, checksum = excluded.checksum`
	// sqlConfigs gives that of the tree whose limits hold first.
	sqlConfigs = `SELECT c.raw, s.root FROM import_settings AS c JOIN import_sources AS s ON s.id = c.source
WHERE s.scope = (SELECT id FROM scopes WHERE name = ?1)
ORDER BY s.id NOT IN (SELECT source FROM retention WHERE scope = s.scope AND store = 'runs'
	AND source IS NOT NULL), s.id`
)

// putConfig stores the config.toml of a tree as it is.
func putConfig(tx *db.Tx, source int64, text []byte) error {
	if text == nil {
		text = []byte{} // the column is not NULL where the file is empty
	}
	_, err := tx.Exec(sqlPutConfig, source, text, txn.Checksum(source, text))
	return err
}

// A keptConfig is the config.toml of a tree that was imported.
type keptConfig struct {
	Raw  []byte `db:"raw"`
	Root []byte `db:"root"`
}

// giveSettings writes dir/config.toml, and names what it can't say.
func giveSettings(ctx context.Context, t *tree.Tree, dir string) error {
	s, err := settingsOf(ctx, t)
	if err != nil || !s.there {
		return err
	}
	for _, reason := range s.unsaid {
		t.Report.LeaveOut(configFile, reason)
	}
	return tree.WriteMark(filepath.Join(dir, configFile), s.text)
}

// settings are what an export writes into config.toml.
type settings struct {
	text   []byte
	there  bool     // else nothing was imported, and no limits are stored
	unsaid []string // what it can't say
}

// settingsOf gives the config.toml that was imported, in which nothing is changed but the limits,
// where they are others now.
func settingsOf(ctx context.Context, t *tree.Tree) (s settings, err error) {
	limits, stored, err := storedLimits(ctx, t.DB, t.Scope)
	if err != nil {
		return s, err
	}
	if !stored {
		limits = DefaultRetention()
	}
	var kept []keptConfig
	err = t.DB.Read(ctx, "look for settings", func(rx *db.Rx) error {
		kept = nil
		return rx.Select(&kept, sqlConfigs, t.Scope)
	})
	if err != nil || len(kept) == 0 && !stored {
		return s, err
	}
	s.there = true
	if stored {
		if s.unsaid, err = unsaid(ctx, t, limits); err != nil {
			return s, err
		}
	}
	if len(kept) == 0 {
		s.text = limitsAlone(limits)
		return s, nil
	}
	var refused error
	if s.text, refused = withLimits(kept[0].Raw, limits); refused != nil {
		s.text = limitsAlone(limits)
		s.unsaid = append(s.unsaid, "all but the limits of runs: the one that was imported "+refused.Error())
	}
	for _, other := range kept[1:] {
		if !bytes.Equal(other.Raw, kept[0].Raw) {
			s.unsaid = append(s.unsaid, "that of "+tree.Shown(string(other.Root))+" too: one folder has one")
		}
	}
	return s, nil
}

// unsaid are the limits of retention that config.toml can't say.
func unsaid(ctx context.Context, t *tree.Tree, limits RetentionConfig) (list []string, err error) {
	r, _, err := stores.RetentionOf(ctx, t.DB, t.Scope, txn.StoreRuns)
	if err != nil {
		return nil, err
	}
	if age := r.Policy.Age; age > 0 && age%day != 0 {
		list = append(list, fmt.Sprintf("runs are kept for %s: the old program counts whole days, and keeps "+
			"them for %d", age, limits.MaxAgeDays))
	}
	if r.Policy.Bytes != 0 {
		list = append(list, "the limit of bytes: the old program has none")
	}
	return list, nil
}

func limitsAlone(limits RetentionConfig) []byte {
	return fmt.Appendf(nil, "[runs]\n%s = %d\n%s = %d\n", keyPerAgent, limits.MaxPerAgent, keyAgeDays,
		limits.MaxAgeDays)
}

const (
	tableRuns   = "runs"
	keyPerAgent = "max_per_agent"
	keyAgeDays  = "max_age_days"
)

// withLimits is a config.toml that says these limits and else what text says, byte for byte. An
// error says why there is none.
func withLimits(text []byte, limits RetentionConfig) ([]byte, error) {
	now, err := parseRetention(text)
	if err != nil {
		if limits == DefaultRetention() {
			return text, nil // which the original takes then
		}
		return nil, fmt.Errorf("can't be understood, and so not be changed: %w", err)
	}
	if limitsOf(policyOf(now)) == limits {
		return text, nil // it means the same, in whatever numbers
	}
	mark := text[:len(text)-len(bytes.TrimPrefix(text, []byte("\ufeff")))]
	edited := append(bytes.Clone(mark), edit(text[len(mark):], []limit{
		{keyPerAgent, int64(limits.MaxPerAgent), DefaultMaxRunsPerAgent},
		{keyAgeDays, limits.MaxAgeDays, DefaultMaxAgeDays},
	})...)
	if now, err = parseRetention(edited); err != nil || now != limits || !sameButLimits(text, edited) {
		return nil, errors.New("is written in a way that is not understood well enough to be changed")
	}
	return edited, nil
}

// sameButLimits reports whether two texts say the same of everything but the limits.
func sameButLimits(a, b []byte) bool {
	rest := func(text []byte) (tables map[string]any, err error) {
		if err = toml.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &tables); err != nil {
			return nil, err
		}
		if limits, ok := tables[tableRuns].(map[string]any); ok {
			delete(limits, keyPerAgent)
			delete(limits, keyAgeDays)
			if len(limits) == 0 {
				delete(tables, tableRuns)
			}
		}
		return tables, nil
	}
	one, errOne := rest(a)
	two, errTwo := rest(b)
	return errOne == nil && errTwo == nil && reflect.DeepEqual(one, two)
}

// A limit is a member of the table. One that is missing says the original's own.
type limit struct {
	key            string
	value, missing int64
}

// A settingChange replaces some bytes by a text.
type settingChange struct {
	at, length int
	text       string
}

// edit has a TOML text say the limits.
func edit(text []byte, limits []limit) []byte {
	f := findLimits(text)
	var changes []settingChange
	var missing []string
	for _, l := range limits {
		if at, ok := f.said[l.key]; ok {
			changes = append(changes, settingChange{int(at.Offset), int(at.Length), strconv.FormatInt(l.value, 10)})
		} else if l.value != l.missing {
			missing = append(missing, fmt.Sprintf(f.member, l.key, l.value))
		}
	}
	if len(missing) > 0 {
		text := f.before + strings.Join(missing, f.between) + f.behind
		changes = append(changes, settingChange{at: f.at, text: text})
	}
	slices.SortFunc(changes, func(a, b settingChange) int { return a.at - b.at })
	var out []byte
	done := 0
	for _, c := range changes {
		out = append(append(out, text[done:c.at]...), c.text...)
		done = c.at + c.length
	}
	return append(out, text[done:]...)
}

// A limitsIn is where the limits stand in a TOML text, and where and how others can be put.
type limitsIn struct {
	said                    map[string]unstable.Range
	at                      int
	before, between, behind string
	member                  string
}

// findLimits looks for them, which may be written in each of TOML's ways: in a table, inline, or
// with dotted keys.
func findLimits(text []byte) limitsIn {
	const line = "%s = %d\n"
	f := limitsIn{
		said: map[string]unstable.Range{}, at: len(text), before: "\n[" + tableRuns + "]\n",
		member: line,
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		f.before = "\n" + f.before
	}
	var parser unstable.Parser
	parser.Reset(text)
	var table []string
	for parser.NextExpression() {
		n := parser.Expression()
		if n.Kind != unstable.KeyValue {
			table = partsOf(n.Key())
			if slices.Equal(table, []string{tableRuns}) {
				f.at, f.before = behindLine(text, n)
			}
			continue
		}
		path, value := slices.Concat(table, partsOf(n.Key())), n.Value()
		switch {
		case path[0] != tableRuns:
		case len(path) == 2:
			f.said[path[1]] = value.Raw
			if len(table) == 0 { // the others have to be dotted, too
				f.at, f.before, f.member = 0, "", tableRuns+"."+line
			}
		case len(path) == 1 && value.Kind == unstable.InlineTable:
			f.at, f.before, f.between, f.behind, f.member = int(value.Raw.Offset)+1, " ", ", ", " ", "%s = %d"
			for members := value.Children(); members.Next(); {
				if m := members.Node(); m.Kind == unstable.KeyValue {
					f.said[strings.Join(partsOf(m.Key()), ".")] = m.Value().Raw
					f.behind = ","
				}
			}
		}
	}
	return f
}

// behindLine is behind the line with a table's name, and what has to come before another line there.
func behindLine(text []byte, table *unstable.Node) (at int, before string) {
	for it := table.Key(); it.Next(); {
		at = int(it.Node().Raw.Offset)
	}
	feed := bytes.IndexByte(text[at:], '\n')
	if feed < 0 {
		return len(text), "\n"
	}
	return at + feed + 1, ""
}

func partsOf(it unstable.Iterator) (parts []string) {
	for it.Next() {
		parts = append(parts, string(it.Node().Data))
	}
	return parts
}
