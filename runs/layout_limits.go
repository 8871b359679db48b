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

// limitsOf converts a policy to limits of the original. The original counts whole days: a part of a
// day counts as one, since a limit of 0 keeps nothing.
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

// maxPolicyDays is the largest age of a policy, in days.
const maxPolicyDays = int64(math.MaxInt64 / day)

// policyOf converts limits of the original to a policy. Limits under which nothing stays, including
// negative ones, keep nothing.
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

// takeSettings stores the limits of config.toml, as the original reads them, and the file as it is.
// Limits that equal the original's defaults are not stored. If the file is gone or can no longer be
// read, the stored limits and the stored file stay, and that is reported.
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
		// Otherwise another tree of the scope, or a person, has set the retention.
		ours := !stored || source != nil && *source == t.Source.ID
		kept = stored && ours && found.problem != ""
		if !kept && !found.unread && !found.gone {
			if err := putConfig(tx, t.Source.ID, found.text); err != nil {
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

// putConfig stores a config.toml. One that differs from the stored one only by what a redaction has erased
// there is left out.
func putConfig(tx *db.Tx, source int64, found []byte) error {
	var kept []byte
	if there, err := tx.Find(&kept, sqlFindConfig, source); err != nil || there && tree.IsErased(kept, found) {
		return err
	}
	text := append([]byte{}, found...) // not NULL, even for an empty file
	_, err := tx.Exec(sqlPutConfig, source, text, txn.Checksum(source, text))
	return err
}

// A config is what was read from config.toml.
type config struct {
	text    []byte
	limits  RetentionConfig
	problem string // why it sets no limits: the original then uses its own
	unread  bool   // because it could not be read
	gone    bool   // because it does not exist
}

// configOf reads the config.toml next to a tree.
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

// Beside returns config.toml and the nobackup file of the folder.
func (layout) Beside(t *tree.Tree) ([]tree.Kept, error) {
	_, carDir, err := runsRoot(t.Dir)
	return []tree.Kept{{Folder: t.Folder, Path: nobackup}, {Folder: carDir, Path: configFile}}, err
}
