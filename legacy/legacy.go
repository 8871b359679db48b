package legacy

import (
	"context"
	"fmt"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/legacy/internal/workers"
	"selvedge/runs"
	"selvedge/runs/live"
)

// Kind is a kind of tree: one of the old programs' ways to lay its files out.
type Kind string

// The kinds of tree.
const (
	// Runs are run traces: runs/AGENT/RUN.jsonl, in a folder that also holds config.toml. DIR is that
	// folder or its runs/.
	Runs Kind = "runs"
	// Agents are the registry of agents: agents/SESSION.toml. DIR is the folder that holds agents/, or agents/.
	Agents Kind = "agents"
	// Checkpoints are paused workflows: RUN.json, and RUN.inflight for one that was claimed. DIR is
	// the folder that holds them, or the one that holds workflow-runs/. An imported claim has
	// no owner.
	Checkpoints Kind = "checkpoints"
	// Workers are worker runtimes: runtimes/id-HEX/. DIR is the folder that holds runtimes/,
	// runtimes/, or in later versions the folder of the one runtime.
	Workers Kind = "workers"
	// Live are live runs: runs/SESSION.json, or v1/ of later versions. DIR is the folder that holds
	// runs/ or v1/.
	Live Kind = "live"
)

// Kinds are the kinds of tree, in the order in which [Recognise] looks for them.
func Kinds() []Kind { return []Kind{Runs, Agents, Checkpoints, Workers, Live} }

// ParseKind gives the kind of that name; db.ErrInvalid if there is none.
func ParseKind(name string) (Kind, error) {
	_, err := Kind(name).layout()
	return Kind(name), err
}

func (k Kind) layout() (tree.Layout, error) {
	switch k {
	case Runs:
		return runs.Layout(), nil
	case Agents:
		return agents.Layout(), nil
	case Checkpoints:
		return checkpoints.Layout(), nil
	case Workers:
		return workers.Layout{}, nil
	case Live:
		return live.Layout(), nil
	}
	return nil, &db.Error{
		Op: "open tree", Entity: "kind of tree", ID: string(k), Hint: "Kinds lists them",
		Err: fmt.Errorf("%w: there is no such kind", db.ErrInvalid),
	}
}

// Options are the choices of an import, a verification or an export. The zero value is the default.
type Options = tree.Options

// Progress is how far an import, a verification or an export is.
type Progress = tree.Progress

// Report is what an import, a verification or an export ends with. Its JSON is the contract of the
// command line.
type Report = tree.Report

// Count is what became of the records of one kind, in a [Report].
type Count = tree.Count

// Proof is what a verification has shown, in its [Report].
type Proof = tree.Proof

// Files counts the files of a folder, in a [Report].
type Files = tree.Files

// Readability says whether the old program can read a file of an export, in a [Report].
type Readability = tree.Readability

// Remark is a remark on a file, in a [Report].
type Remark = tree.Remark

// Import brings the tree under dir into the scope of the options. It may be stopped, by ctx or by
// force, and run again at any point; run twice it adds nothing. The report says how far it came
// even when there is an error. db.ErrNotFound says that dir neither is nor holds such a tree,
// db.ErrInvalid that there is no such kind, and [ErrOtherFolder] that dir is not the folder that
// was imported before: see [CheckFollowed].
func Import(ctx context.Context, d *db.DB, kind Kind, dir string, o Options) (Report, error) {
	l, err := kind.layout()
	if err != nil {
		return Report{}, err
	}
	return tree.Import(ctx, d, l, dir, o)
}

// ErrOtherFolder says that a folder is not the one that was imported before under its name. Matches
// [db.ErrConflict].
var ErrOtherFolder = tree.ErrOtherFolder

// CheckFollowed reports, as [ErrOtherFolder], that dir is not the folder that was imported before:
// another one lies there (it has another device or inode), it is gone, or it can't be read, as
// where a volume is not mounted. An import would take its emptiness for the work of the old
// program, and removes nothing then unless Options.OtherFolder says so. It is nil where nothing was
// imported from dir, or by a program from before this was kept.
func CheckFollowed(ctx context.Context, d *db.DB, kind Kind, dir string, o Options) error {
	l, err := kind.layout()
	if err != nil {
		return err
	}
	return tree.CheckFollowed(ctx, d, l, dir, o)
}

// Verify imports the tree under dir once more, into a file of its own in memory or beside d's,
// which is removed again, and compares every row that this gives with what is here, both ways: ids,
// columns, order, limits and what is in quarantine. The Proof of the report says whether dir can
// go. Nothing is written to d. Errors are those of [Import].
func Verify(ctx context.Context, d *db.DB, kind Kind, dir string, o Options) (Report, error) {
	total, _, err := VerifyAll(ctx, d, dir, []Found{{Kind: kind, Dir: dir}}, o)
	return total, err
}

// RemoveLeft removes what verifications of the file at path that were killed have left beside it,
// and gives the paths. The next verification of a large folder does it, too.
func RemoveLeft(path string) (removed []string) { return tree.RemoveLeft(path) }

// VerifyAll is Verify for all that [Recognise] found in dir: what one of the trees does not read of
// dir another one may. total is the sum of the reports.
func VerifyAll(ctx context.Context, d *db.DB, dir string, found []Found, o Options) (total Report,
	reports []Report, err error,
) {
	var given []tree.Given
	for _, f := range found {
		l, err := f.Kind.layout()
		if err != nil {
			return Report{}, nil, err
		}
		given = append(given, tree.Given{Layout: l, Dir: f.Dir, Options: o})
	}
	return tree.Verify(ctx, d, dir, Auto, given)
}

// Auto is the kind of a report on several trees.
const Auto = "auto"

// Sum adds the reports on several trees in dir up.
func Sum(dir string, reports []Report) Report { return tree.Sum(dir, Auto, reports) }

// Export writes the scope's records in the old layout into dir, which must be empty or not there;
// else the error is db.ErrInvalid. A scope that is not there is db.ErrNotFound. When it returns
// without an error every file is on the disk and was read again by the old program's rules, with
// what came of it in Report.Readable; with one, dir holds nothing that it wrote.
func Export(ctx context.Context, d *db.DB, kind Kind, dir string, o Options) (Report, error) {
	l, err := kind.layout()
	if err != nil {
		return Report{}, err
	}
	return tree.Export(ctx, d, l, dir, o)
}
