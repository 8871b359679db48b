package legacy

import (
	"context"
	"fmt"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// Kind is a kind of tree: how one of the old programs lays out its files.
type Kind string

// The kinds of tree.
const (
	// Runs are run traces: runs/AGENT/RUN.jsonl, in a folder that also holds config.toml. DIR is that
	// folder or its runs/.
	Runs Kind = "runs"
	// Agents are the registry of agents: agents/SESSION.toml. DIR is the folder that holds agents/,
	// or agents/.
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

// Kinds returns the kinds of tree, in the order in which [Recognise] looks for them.
func Kinds() []Kind { return []Kind{Runs, Agents, Checkpoints, Workers, Live} }

var layouts = map[Kind]func() tree.Layout{
	Runs: runs.Layout, Agents: agents.Layout, Checkpoints: checkpoints.Layout, Workers: workers.Layout,
	Live: live.Layout,
}

// ParseKind returns the kind with that name; db.ErrInvalid if there is none.
func ParseKind(name string) (Kind, error) {
	_, err := Kind(name).layout()
	return Kind(name), err
}

func (k Kind) layout() (tree.Layout, error) {
	if layout := layouts[k]; layout != nil {
		return layout(), nil
	}
	return nil, &db.Error{
		Op: "open tree", Entity: "kind of tree", ID: string(k), Hint: "Kinds lists them",
		Err: fmt.Errorf("%w: there is no such kind", db.ErrInvalid),
	}
}

// Options are the choices of an import, a verification or an export. The zero value is the default.
type Options = tree.Options

// Progress is how far an import, a verification or an export has come.
type Progress = tree.Progress

// Report is the result of an import, a verification or an export. Its JSON is the contract of the
// command line.
type Report = tree.Report

// Count is the result for the records of one kind, in a [Report].
type Count = tree.Count

// Proof is what a verification showed, in its [Report].
type Proof = tree.Proof

// Files counts the files of a folder, in a [Report].
type Files = tree.Files

// Readability reports whether the old program can read a file of an export, in a [Report].
type Readability = tree.Readability

// Remark is a remark on a file, in a [Report].
type Remark = tree.Remark

// Import imports the tree under dir into the scope of the options. It may be stopped at any point,
// by ctx or by force, and run again; a second import adds nothing. The report shows how far it
// came, even with an error. The error is db.ErrNotFound if dir neither is nor holds such a tree,
// db.ErrInvalid if there is no such kind, and [ErrOtherFolder] if dir is not the folder that was
// imported before; see [CheckFollowed].
func Import(ctx context.Context, d *db.DB, kind Kind, dir string, o Options) (Report, error) {
	l, err := kind.layout()
	if err != nil {
		return Report{}, err
	}
	return tree.Import(ctx, d, l, dir, o)
}

// ErrOtherFolder means that a folder is not the one that was imported before under its name. It
// matches [db.ErrConflict].
var ErrOtherFolder = tree.ErrOtherFolder

// CheckFollowed returns [ErrOtherFolder] if dir is not the folder that was imported before: it has
// another device or inode, it is gone, or it can't be read, as when a volume is not mounted. Then
// an import does nothing unless Options.OtherFolder is set. Otherwise it would take missing files
// for deletions by the old program, and remove here what they held. CheckFollowed returns nil if
// nothing was imported from dir, or only by an older program that did not record this.
func CheckFollowed(ctx context.Context, d *db.DB, kind Kind, dir string, o Options) error {
	l, err := kind.layout()
	if err != nil {
		return err
	}
	return tree.CheckFollowed(ctx, d, l, dir, o)
}

// Verify imports the tree under dir again, into a temporary database in memory or beside d's file,
// and compares all rows of both, in both directions: ids, columns, order, limits and what is in
// quarantine. The Proof in the report shows whether dir can be removed. Verify writes nothing to d.
// Its errors are those of [Import].
func Verify(ctx context.Context, d *db.DB, kind Kind, dir string, o Options) (Report, error) {
	total, _, err := VerifyAll(ctx, d, dir, []Found{{Kind: kind, Dir: dir}}, o)
	return total, err
}

// RemoveLeft removes what killed verifications left beside the file at path, and returns the paths.
// The next verification of a large folder does it too.
func RemoveLeft(path string) (removed []string) { return tree.RemoveLeft(path) }

// VerifyAll is Verify for all trees that [Recognise] found in dir, since one tree may read what
// another does not. total is the sum of the reports.
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
	return tree.Verify(ctx, d, dir, given)
}

// Auto is the kind of a report on several trees.
const Auto = tree.Auto

// Sum adds up the reports on several trees in dir.
func Sum(dir string, reports []Report) Report { return tree.Sum(dir, reports) }

// Export writes the scope's records in the old layout into dir, which must be empty or missing.
// Without an error, every file is on the disk and was read back by the old program's rules, with
// the result in Report.Readable. With an error, dir holds nothing that Export wrote. The error is
// db.ErrInvalid if dir is not empty, and db.ErrNotFound if there is no such scope.
func Export(ctx context.Context, d *db.DB, kind Kind, dir string, o Options) (Report, error) {
	l, err := kind.layout()
	if err != nil {
		return Report{}, err
	}
	return tree.Export(ctx, d, l, dir, o)
}
