package tree

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"

	"selvedge/db"
)

// Proof is the result of a verification.
type Proof struct {
	// SHA256 is the hash of a list with a line for each file that was read, sorted by path: its
	// SHA-256 in hex, its size in bytes and its path, separated by spaces.
	SHA256 string `json:"sha256"`
	Files  int64  `json:"files"` // in that list
	Bytes  int64  `json:"bytes"` // of those files
	// Whole: all of the folder is here. Nothing differs, is in quarantine, or is missing from every
	// store.
	Whole bool   `json:"whole"`
	Line  string `json:"line"` // the same in a sentence
}

// A Given is a tree to verify, named by its folder.
type Given struct {
	Layout  Layout
	Dir     string
	Options Options
}

// Verify imports each tree into a temporary file and compares the result with d; see [Derived].
// Files in dir, or in the folder of a tree, that no import reads are reported as unknown. total is
// the sum of the reports. Nothing is written to d.
func Verify(ctx context.Context, d *db.DB, dir string, trees []Given) (total Report, reports []Report,
	err error,
) {
	var covers []*coverage
	var told []string
	for _, g := range trees {
		x, err := Derive(ctx, g.Layout, g.Dir, g.Options, d.Path())
		report := x.tree.Report.Report
		if err == nil {
			report, err = x.Compare(ctx, d)
			err = errors.Join(err, x.Close())
		}
		reports = append(reports, report)
		if err != nil {
			return Sum(dir, reports), reports, interrupted(ctx, "verify", err)
		}
		covers = append(covers, &x.covered)
		told = append(told, tell(g.Layout, x.said))
	}
	for i := range reports {
		if err := conclude(&reports[i], trees[i].Dir, d.Path(), covers[i:i+1], covers, told[i]); err != nil {
			return total, reports, err
		}
	}
	if len(reports) == 1 {
		return reports[0], reports, nil
	}
	total = Sum(dir, reports)
	total.Unknown = total.Unknown[:0] // another tree's import may read what one does not
	return total, reports, conclude(&total, dir, d.Path(), covers, covers, strings.Join(told, ", "))
}

// conclude determines what is unknown in a folder, and whether the folder can be removed.
func conclude(r *Report, dir, file string, of, all []*coverage, told string) error {
	list, err := unknown(dir, all)
	if err != nil {
		return err
	}
	part := Part{*r}
	addTo(&part, &part.Unknown, list...)
	*r = part.Report
	root := dir
	if len(of) == 1 {
		root = of[0].root
	}
	p := Proof{Whole: !r.Partial() && len(r.Unknown) == 0 && r.Truncated == 0}
	p.SHA256, p.Files, p.Bytes = sumOf(root, of)
	shown, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	shown = Shown(shown)
	p.Line = fmt.Sprintf("%s, sha256 %s: ", told, p.SHA256)
	if p.Whole {
		p.Line += fmt.Sprintf("everything in %s is in %s; %s can go", shown, file, shown)
	} else {
		p.Line += strings.Join(r.missing(), ", ") + "; " + shown + " has to stay"
	}
	r.Proof = &p
	return nil
}

// missing returns the reasons why a folder is still needed.
func (r *Report) missing() (list []string) {
	add := func(n int64, text string) {
		if n > 0 {
			list = append(list, humanize.Comma(n)+" "+text)
		}
	}
	add(int64(len(r.Differs)), "differ")
	add(int64(len(r.Quarantined)), "in quarantine")
	add(int64(len(r.Unknown)), "in no store")
	add(r.Truncated, "more of these")
	return list
}

// tell describes in words how much was read.
func tell(l Layout, said map[string]int64) string {
	var list []string
	for _, t := range l.Tables() {
		if t.Said != "" {
			list = append(list, plural(said[t.Said], t.Said))
		}
	}
	return strings.Join(list, ", ")
}

// plural is a number of things.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		noun = stem + "ie"
	}
	return humanize.Comma(n) + " " + noun + "s"
}
