// The layout of the old checkpoint store: RUN.json for a paused run, RUN.inflight for a claimed
// one. The file's name is the run's id, even if the document has another.
//
// A document that the original can't read is imported all the same, since the original lists it. It
// also goes into quarantine. An imported claim has no owner: RecoverOrphaned makes it claimable
// again.

package checkpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"selvedge/checkpoints/internal/codec"
	"selvedge/internal/tree"
	"selvedge/internal/tree/documents"
)

// Layout is the layout of the old checkpoint store's trees, for package legacy.
func Layout() tree.Layout { return documents.Layout{Kind: kind{}} }

type kind struct{}

func (kind) Name() string { return "checkpoints" }

// Describe counts the documents by their states.
func (kind) Describe(files map[string]int) string {
	return fmt.Sprintf("a checkpoint store: %d paused, %d claimed", files[extensions[Paused]],
		files[extensions[Claimed]])
}

// Root is the folder of the documents: workflow-runs/ in the old program's home folder, or dir.
func (kind) Root(dir tree.Folder) (tree.Folder, error) {
	root, err := dir.Sub("workflow-runs")
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	return root, err
}

// Foreign tells checkpoints, torn ones too, from another program's JSON.
func (k kind) Foreign(root tree.Folder) error {
	const most = 1 << 20 // bytes; a larger file counts as a checkpoint
	names, ours := 0, errors.New("a checkpoint")
	err := root.Names(".", func(name string) error {
		names++
		if checkpointAt(name).Group == "" {
			return nil
		}
		if text, err := root.Read(name, most); err != nil || !isForeign(text) {
			return ours
		}
		return nil
	})
	if errors.Is(err, ours) {
		return nil
	}
	if err == nil && names > 0 {
		err = tree.NoTree(root, "checkpoint store", "name the folder that holds RUN.json and RUN.inflight, or "+
			"workflow-runs/")
	}
	return err
}

// isForeign reports whether text is JSON without a member of a checkpoint.
func isForeign(text []byte) bool {
	var members map[string]json.RawMessage
	return json.Valid(text) && (json.Unmarshal(text, &members) != nil ||
		members["run_id"] == nil && members["workflow"] == nil && members["paused_stage_id"] == nil)
}

// extensions are those of the documents in each state.
var extensions = map[State]string{Paused: ".json", Claimed: ".inflight"}

// checkpointAt returns the checkpoint in the file of that name.
func checkpointAt(name string) tree.Entity {
	for state, extension := range extensions {
		if id, ok := strings.CutSuffix(name, extension); ok {
			return tree.Entity{Group: string(state), ID: id}
		}
	}
	return tree.Entity{}
}

// Walk follows the original: the extension decides, and a name that is only an extension has none.
// The original reads such a file for the run "", so it is imported if it holds a document.
func (k kind) Walk(root tree.Folder, file func(string) error, ignored func(path, reason string) error) error {
	return root.Names(".", func(name string) error {
		e := checkpointAt(name)
		switch {
		case e.Group == "":
			return ignored(name, "the name ends neither in .json nor in .inflight")
		case !utf8.ValidString(name):
			return ignored(name, "the name is not UTF-8")
		case e.ID == "" && !documents.Readable(k, root, name):
			return ignored(name, "the name is nothing but an extension, and no checkpoint is in it")
		}
		return file(name)
	})
}

func (kind) Decode(text []byte) (value any, reason, flaw string) {
	return nil, "", codec.Problem(text)
}

func (kind) Identities(path string, _ any, _ func(path string) bool) []tree.Entity {
	return []tree.Entity{checkpointAt(path)}
}

func (kind) Own(path string, _ any) tree.Entity { return checkpointAt(path) }

// Forms are the two files of a run. Those of the run "" may not be checkpoints: each stands alone.
func (kind) Forms(path string) []string {
	run := checkpointAt(path).ID
	if run == "" {
		return []string{path}
	}
	claimed, waiting := run+extensions[Claimed], run+extensions[Paused]
	if len(claimed) > tree.MaxName {
		return []string{waiting} // the old program can't claim it
	}
	return []string{claimed, waiting}
}

func (kind) Once() bool { return true }

func (kind) Path(e tree.Entity) (path, problem string) {
	state, agent, named := strings.Cut(e.Group, " ")
	path = e.ID + extensions[State(state)]
	switch {
	case named:
		return path, fmt.Sprintf("another agent than %q has a run of that id", agent)
	case strings.Contains(e.ID, "/"):
		return path, "its id can't be a file name"
	case len(path) > tree.MaxName:
		return path, "its file name is too long"
	}
	return path, ""
}

func (kind) Title(e tree.Entity) string {
	state, agent, named := strings.Cut(e.Group, " ")
	if named {
		return fmt.Sprintf("the %s checkpoint of run %q of agent %q", state, e.ID, agent)
	}
	return fmt.Sprintf("the %s checkpoint of run %q", state, e.ID)
}

func (kind) Unlisted(path string) string {
	if checkpointAt(path).ID == "" {
		return "the name is nothing but an extension, and stands in no list"
	}
	return ""
}

func (kind) Folder() string { return "" }
