package runs

import (
	"context"
	"math"
	"time"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/internal/txn"
)

const sqlWhoseLimits = `SELECT source FROM retention WHERE scope = ? AND store = 'runs'`

// limitsOf is what a policy is in the words of the original. The original counts whole days: part of
// one is a day, since a limit of 0 keeps nothing.
func limitsOf(p db.Policy) RetentionConfig {
	limits := RetentionConfig{MaxPerAgent: math.MaxInt64, MaxAgeDays: maxPolicyDays} // no limit
	if p.Count != 0 {
		limits.MaxPerAgent = uint64(max(p.Count, 0))
	}
	switch {
	case p.Age < 0:
		limits.MaxAgeDays = 0
	case p.Age > 0:
		limits.MaxAgeDays = int64((p.Age-1)/day) + 1
	}
	return limits
}

const day = 24 * time.Hour

// maxPolicyDays is how many days a limit can say.
const maxPolicyDays = int64(math.MaxInt64 / day)

// policyOf is what limits of the original mean. Those under which nothing stays, also those below
// 0, keep nothing.
func policyOf(limits RetentionConfig) (p db.Policy) {
	if p.Count = int(min(limits.MaxPerAgent, math.MaxInt64)); p.Count == 0 {
		p.Count = db.KeepNone
	}
	switch {
	case limits.MaxAgeDays <= 0:
		p.Age = db.KeepNone
	case limits.MaxAgeDays <= maxPolicyDays:
		p.Age = time.Duration(limits.MaxAgeDays) * day
	}
	return p
}

// takeSettings stores what config.toml says, as the original reads it, and the file as it is. The
// original's own limits are not stored. Limits that were stored stay, with their file, when that is
// gone or can't be read any more, and that is reported.
func takeSettings(ctx context.Context, t *tree.Tree) error {
	found, err := configOf(t.Dir)
	if err != nil {
		return err
	}
	kept := false
	err = t.Hold(ctx, "store settings", func(tx *db.Tx) error {
		kept = false
		var source *int64
		stored, err := tx.Find(&source, sqlWhoseLimits, t.Source.Scope)
		if err != nil {
			return err
		}
		// else another tree of the scope, or a person, has said what to keep
		ours := !stored || source != nil && *source == t.Source.ID
		kept = stored && ours && found.problem != ""
		if !kept && !found.unread && !found.gone {
			text := append([]byte{}, found.text...) // the column is not NULL if the file is empty
			sum := txn.Checksum(t.Source.ID, text)
			if _, err := tx.Exec(sqlPutConfig, t.Source.ID, text, sum); err != nil {
				return err
			}
		}
		switch {
		case !ours || found.problem != "":
			return nil
		case found.limits == DefaultRetention():
			return tx.Store().ResetRetention(t.Scope, txn.StoreRuns)
		}
		p := policyOf(found.limits)
		limits := txn.Limits{Age: p.Age, Count: p.Count, Bytes: p.Bytes}
		return tx.Store().SetRetention(t.Scope, txn.StoreRuns, limits, &t.Source.ID)
	})
	switch {
	case kept:
		t.Report.Differ(configFile, found.problem+": the limits of retention that were imported from it stay")
	case found.unread:
		t.Report.Differ(configFile, found.problem+": it is not known whether it sets limits of retention")
	}
	return err
}

// A config is what was found as config.toml.
type config struct {
	text    []byte
	limits  RetentionConfig
	problem string // why it says nothing: the original takes its own limits then
	unread  bool   // that is so since it could not be read
	gone    bool   // that is so since there is none
}

// configOf reads the config.toml beside a tree.
func configOf(dir tree.Folder) (found config, err error) {
	_, carDir, err := runsRoot(dir)
	if err != nil {
		return found, err
	}
	found.text, err = carDir.Read(configFile, configSize)
	if err != nil {
		gone := carDir.Lacks(configFile)
		return config{problem: carDir.Why(configFile, err), unread: !gone, gone: gone}, nil
	}
	if found.limits, err = parseRetention(found.text); err != nil {
		found.problem = "can't be understood: " + err.Error()
	}
	return found, nil
}

const configFile = "config.toml"

// Beside gives config.toml and the mark of the folder.
func (layout) Beside(t *tree.Tree) ([]tree.Kept, error) {
	_, carDir, err := runsRoot(t.Dir)
	return []tree.Kept{{Folder: t.Folder, Path: nobackup}, {Folder: carDir, Path: configFile}}, err
}
