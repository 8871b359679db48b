package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	sqlFindConfig = `SELECT raw FROM import_settings WHERE source = ?`
	// sqlConfigs returns the config.toml of every tree, first of the one whose limits are in
	// effect.
	sqlConfigs = `SELECT c.raw, s.root FROM import_settings AS c JOIN import_sources AS s ON s.id = c.source
WHERE s.scope = (SELECT id FROM scopes WHERE name = ?1)
ORDER BY s.id NOT IN (SELECT source FROM retention WHERE scope = s.scope AND store = 'runs'
	AND source IS NOT NULL), s.id`
)

// A keptConfig is the config.toml of an imported tree.
type keptConfig struct {
	Raw  []byte `db:"raw"`
	Root []byte `db:"root"`
}

// settings are what an export writes into config.toml.
type settings struct {
	text   []byte
	there  bool     // false: nothing was imported, and no limits are stored
	unsaid []string // what it cannot express
}

// settingsOf returns the imported config.toml. Only the limits are changed, if they differ now.
func settingsOf(ctx context.Context, t *tree.Tree) (s settings, err error) {
	r, stored, err := stores.RetentionOf(ctx, t.DB, t.Scope, txn.StoreRuns)
	if err != nil {
		return s, err
	}
	var kept []keptConfig
	err = t.DB.Read(ctx, "look for settings", func(rx *db.Rx) error {
		kept = nil
		return rx.Select(&kept, sqlConfigs, t.Scope)
	})
	if err != nil || len(kept) == 0 && !stored {
		return s, err
	}
	limits := DefaultRetention()
	if stored {
		limits = limitsOf(r.Policy)
		if age := r.Policy.Age; age > 0 && age%day != 0 {
			s.unsaid = append(s.unsaid, fmt.Sprintf("runs are kept for %s: the old program counts whole days, and "+
				"keeps them for %d", age, limits.MaxAgeDays))
		}
		if r.Policy.Bytes != 0 {
			s.unsaid = append(s.unsaid, "the limit of bytes: the old program has none")
		}
	}
	s.there, s.text = true, fmt.Appendf(nil, "[runs]\n%s = %d\n%s = %d\n", keyPerAgent, limits.MaxPerAgent,
		keyAgeDays, limits.MaxAgeDays)
	for i, c := range kept {
		if i > 0 {
			if !bytes.Equal(c.Raw, kept[0].Raw) {
				s.unsaid = append(s.unsaid, "that of "+tree.Shown(string(c.Root))+" too: one folder has one")
			}
			continue
		}
		text, refused := withLimits(c.Raw, limits)
		if refused != nil {
			s.unsaid = append(s.unsaid, "all but the limits of runs: the one that was imported "+refused.Error())
		} else {
			s.text = text
		}
	}
	return s, nil
}

const (
	tableRuns   = "runs"
	keyPerAgent = "max_per_agent"
	keyAgeDays  = "max_age_days"
)

// withLimits returns text as a config.toml with these limits; all else is kept byte for byte. The
// error is why that is impossible.
func withLimits(text []byte, limits RetentionConfig) ([]byte, error) {
	now, err := parseRetention(text)
	if err != nil {
		if limits == DefaultRetention() {
			return text, nil // the original then uses its defaults
		}
		return nil, fmt.Errorf("can't be understood, and so not be changed: %w", err)
	}
	if limitsOf(policyOf(now)) == limits {
		return text, nil // it means the same, in other numbers
	}
	mark := text[:len(text)-len(bytes.TrimPrefix(text, []byte("\ufeff")))]
	edited := setValue(text[len(mark):], keyAgeDays, limits.MaxAgeDays, DefaultMaxAgeDays)
	edited = setValue(edited, keyPerAgent, int64(limits.MaxPerAgent), DefaultMaxRunsPerAgent)
	edited = slices.Concat(mark, edited)
	if now, err = parseRetention(edited); err != nil || now != limits || !sameButLimits(text, edited) {
		return nil, errors.New("is written in a way that is not understood well enough to be changed")
	}
	return edited, nil
}

// sameButLimits reports whether two texts are equal in everything but the limits.
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

// setValue sets a limit in a TOML text, in which it may be written in each of TOML's ways: in a table,
// inline, or with dotted keys. A limit that is missing is inserted before the others, unless it is
// the original's default.
func setValue(text []byte, key string, value, own int64) []byte {
	member := fmt.Sprintf("%s = %d", key, value)
	at, length, put := len(text), 0, "\n["+tableRuns+"]\n"+member+"\n"
	if len(text) > 0 && text[len(text)-1] != '\n' {
		put = "\n" + put
	}
	missing := true
	found := func(said *unstable.Node) {
		missing, at, length, put = false, int(said.Raw.Offset), int(said.Raw.Length), strconv.FormatInt(value, 10)
	}
	var parser unstable.Parser
	parser.Reset(text)
	var table []string
	for missing && parser.NextExpression() {
		n := parser.Expression()
		if n.Kind != unstable.KeyValue {
			if table = partsOf(n.Key()); slices.Equal(table, []string{tableRuns}) {
				at, put = behindLine(text, n), member+"\n"
				if text[at-1] != '\n' {
					put = "\n" + put
				}
			}
			continue
		}
		path, said := slices.Concat(table, partsOf(n.Key())), n.Value()
		switch {
		case path[0] != tableRuns:
		case len(path) == 2 && path[1] == key:
			found(said)
		case len(path) == 2 && len(table) == 0: // the others have to be dotted too
			at, put = 0, tableRuns+"."+member+"\n"
		case len(path) == 1 && said.Kind == unstable.InlineTable:
			at, put = int(said.Raw.Offset)+1, " "+member+" "
			for members := said.Children(); missing && members.Next(); {
				if m := members.Node(); m.Kind == unstable.KeyValue {
					put = " " + member + ","
					if strings.Join(partsOf(m.Key()), ".") == key {
						found(m.Value())
					}
				}
			}
		}
	}
	if missing && value == own {
		return text
	}
	return slices.Concat(text[:at], []byte(put), text[at+length:])
}

// behindLine returns the offset after the line with a table's name.
func behindLine(text []byte, table *unstable.Node) (at int) {
	for it := table.Key(); it.Next(); {
		at = int(it.Node().Raw.Offset)
	}
	if feed := bytes.IndexByte(text[at:], '\n'); feed >= 0 {
		return at + feed + 1
	}
	return len(text)
}

func partsOf(it unstable.Iterator) (parts []string) {
	for it.Next() {
		parts = append(parts, string(it.Node().Data))
	}
	return parts
}
