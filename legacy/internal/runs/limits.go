package runs

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/pelletier/go-toml/v2"

	"selvedge/db"
	"selvedge/legacy/internal/tree"
	"selvedge/runs"
)

const sqlWhoseLimits = `SELECT source FROM retention WHERE scope = ? AND store = 'runs'`

// StoredLimits are the limits of retention that a scope's tree of run traces brought with it, from the config.toml beside
// it. ok is false where there are none other than the original's own, 50 runs per agent and 30 days. The original counts whole
// days: part of one is a day, since a limit of 0 keeps nothing.
func StoredLimits(ctx context.Context, d *db.DB, scope string) (limits runs.RetentionConfig, ok bool, err error) {
	r, ok, err := d.Retention(ctx, scope, db.StoreRuns)
	if err != nil || !ok {
		return limits, false, err
	}
	limits = runs.RetentionConfig{MaxPerAgent: math.MaxInt64, MaxAgeDays: maxDays} // which is no limit
	if r.Policy.Count != 0 {
		limits.MaxPerAgent = uint64(max(r.Policy.Count, 0))
	}
	switch age := r.Policy.Age; {
	case age < 0:
		limits.MaxAgeDays = 0
	case age > 0:
		limits.MaxAgeDays = int64((age-1)/day) + 1
	}
	return limits, true, nil
}

const day = 24 * time.Hour

// maxDays is how many days a limit can say.
const maxDays = int64(math.MaxInt64 / day)

// policyOf is what limits of the original mean. Those under which nothing stays, also those below 0, keep nothing.
func policyOf(limits runs.RetentionConfig) (p db.Policy) {
	if p.Count = int(min(limits.MaxPerAgent, math.MaxInt64)); p.Count == 0 {
		p.Count = db.KeepNone
	}
	switch {
	case limits.MaxAgeDays <= 0:
		p.Age = db.KeepNone
	case limits.MaxAgeDays <= maxDays:
		p.Age = time.Duration(limits.MaxAgeDays) * day
	}
	return p
}

// takeLimits stores what config.toml says, as the original reads it. The original's own limits are not stored. Limits that were
// stored stay when the file is gone or can't be read any more, and that is reported.
func takeLimits(ctx context.Context, t *tree.Tree) error {
	limits, found, err := limitsOf(t.Dir)
	if err != nil {
		return err
	}
	kept := false
	err = t.DB.Write(ctx, "store limits", func(tx *db.Tx) error {
		kept = false
		var source *int64
		stored, err := tx.Find(&source, sqlWhoseLimits, t.Source.Scope)
		switch {
		case err != nil || stored && (source == nil || *source != t.Source.ID):
			return err // another tree of the scope, or a person, has said what to keep
		case found.problem != "":
			kept = stored
			return nil
		case limits == runs.DefaultRetention():
			return tx.ResetRetention(t.Scope, db.StoreRuns)
		}
		return tx.SetRetention(t.Scope, db.StoreRuns, policyOf(limits), &t.Source.ID)
	})
	switch {
	case kept:
		t.Report.Differ(configFile, found.problem+": the limits of retention that were imported from it stay")
	case found.unread:
		t.Report.Differ(configFile, found.problem+": it is not known whether it sets limits of retention")
	}
	return err
}

// A config is what was found in place of config.toml.
type config struct {
	problem string // why it says nothing: the original takes its own limits then
	unread  bool   // that is so since it could not be read
}

// limitsOf reads the limits beside a tree.
func limitsOf(dir tree.Folder) (limits runs.RetentionConfig, found config, err error) {
	_, carDir, err := runsRoot(dir)
	if err != nil {
		return limits, found, err
	}
	text, err := carDir.Read(configFile, maxConfig)
	if err != nil {
		return limits, config{problem: carDir.Why(configFile, err), unread: !carDir.Lacks(configFile)}, nil
	}
	if limits, err = runs.ParseRetention(text); err != nil {
		return limits, config{problem: "can't be understood: " + err.Error()}, nil //nolint:nilerr // the import goes on, and says so
	}
	return limits, found, nil
}

const configFile = "config.toml"

// maxConfig is more than any config.toml has.
const maxConfig = 16 << 20

// Beside gives config.toml, of which the limits alone are kept, and the mark of the folder.
func (Layout) Beside(t *tree.Tree) ([]tree.Kept, error) {
	_, carDir, err := runsRoot(t.Dir)
	config := tree.Kept{Folder: carDir, Path: configFile}
	if text, err := carDir.Read(configFile, maxConfig); err == nil {
		config.More = furtherSettings(text)
	}
	return []tree.Kept{{Folder: t.Folder, Path: nobackup}, config}, err
}

// furtherSettings says what of a config.toml is not kept: all but the limits of runs.
func furtherSettings(text []byte) string {
	var tables map[string]any
	if err := toml.Unmarshal(text, &tables); err != nil {
		return "can't be understood: " + err.Error()
	}
	limits, ok := tables["runs"].(map[string]any)
	delete(limits, "max_per_agent")
	delete(limits, "max_age_days")
	if len(tables) > 1 || len(tables) == 1 && !ok || len(limits) > 0 {
		return "it says more than the limits of runs, which alone are kept"
	}
	return ""
}

// giveLimits writes the stored limits into dir/config.toml, and names those that it can't say.
func giveLimits(ctx context.Context, t *tree.Tree, dir string) error {
	limits, ok, err := StoredLimits(ctx, t.DB, t.Scope)
	if err != nil || !ok {
		return err
	}
	r, _, err := t.DB.Retention(ctx, t.Scope, db.StoreRuns)
	if err != nil {
		return err
	}
	if age := r.Policy.Age; age > 0 && age%day != 0 {
		t.Report.LeaveOut(configFile, fmt.Sprintf("runs are kept for %s: the old program counts whole days, and keeps them for %d", age, limits.MaxAgeDays))
	}
	if r.Policy.Bytes != 0 {
		t.Report.LeaveOut(configFile, "the limit of bytes: the old program has none")
	}
	text := fmt.Sprintf("[runs]\nmax_per_agent = %d\nmax_age_days = %d\n", limits.MaxPerAgent, limits.MaxAgeDays)
	return tree.WriteMark(filepath.Join(dir, configFile), []byte(text))
}
