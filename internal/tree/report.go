package tree

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// Report is what an import, a verification or an export ends with. Its JSON is the contract of the
// command line.
type Report struct {
	Source string `json:"source"` // the folder, absolute, links resolved
	Kind   string `json:"kind"`
	Scope  string `json:"scope"`
	// Counts has an entry for every kind of record that was read. Read is the sum of the other four.
	Counts map[string]Count `json:"counts"`
	Files  Files            `json:"files"`
	// Quarantined are the rows of the quarantine that this call made or, for files that can't be
	// imported, found again.
	Quarantined []Quarantined `json:"quarantined"`
	// Differs names what differs between folder and file and was left as it is.
	Differs []Remark `json:"differs"`
	// Followed names what the old program has claimed, finished or removed since it was imported: it
	// is the same here now.
	Followed []Remark `json:"followed"`
	// LeftOut names what an export could not write, or not in full.
	LeftOut []Remark `json:"left_out"`
	// Apart names files whose records went into a separate scope, since the tree has other records
	// with their ids.
	Apart []Remark `json:"apart"`
	// Ignored names files of the folder that the old program does not read either.
	Ignored []Remark `json:"ignored"`
	// Unknown names what a verification found in the folder and in no store.
	Unknown []Remark `json:"unknown"`
	// Readable says of every file of an export whether the old program can read it. LeftOut names
	// those that it can't read.
	Readable []Readability `json:"readable,omitempty"`
	// Truncated is the number of further entries of the lists: each holds at most 1,000.
	Truncated int64 `json:"truncated"`
	// Proof is set by a verification.
	Proof *Proof `json:"proof,omitempty"`
}

// Count counts the records of one kind by their outcome.
type Count struct {
	Read        int64 `json:"read"`
	New         int64 `json:"new"`         // import: written; export: written to the folder
	Already     int64 `json:"already"`     // there, and the same
	Changed     int64 `json:"changed"`     // differ from what was imported before
	Quarantined int64 `json:"quarantined"` // not taken as records
}

// Files counts files of the folder.
type Files struct {
	Found      int64 `json:"found"`      // that hold, or should hold, records
	New        int64 `json:"new"`        // never imported before; for an export, written
	Grown      int64 `json:"grown"`      // have more records than when they were imported last
	Already    int64 `json:"already"`    // as they were
	Changed    int64 `json:"changed"`    // differ from what was imported
	Refused    int64 `json:"refused"`    // their id is there from elsewhere with other content: in quarantine
	Unreadable int64 `json:"unreadable"` // could not be read, or not to the end
	Ignored    int64 `json:"ignored"`    // not read by the old program either
	// imported before and no longer in the folder; what was imported of runs, workers and live runs stays
	Gone  int64 `json:"gone"`
	Bytes int64 `json:"bytes"` // of the files read
}

// Remark is a remark on a file.
type Remark struct {
	File   string `json:"file"` // relative to the source; bytes that are no UTF-8 are shown as \xFF
	Reason string `json:"reason"`
}

// maxRemarks bounds each list of a report, and so its memory for a tree where everything is wrong.
const maxRemarks = 1000

// Partial reports whether something was quarantined, left out or differs.
func (r *Report) Partial() bool {
	return len(r.Quarantined) > 0 || len(r.Differs) > 0 || len(r.LeftOut) > 0
}

// A Part is a report in the making: a call's, or a transaction's, which is added to the call's once
// the transaction is committed.
type Part struct{ Report }

func newPart(kind, scope, source string) *Part {
	p := &Part{Report{
		Source: Shown(source), Kind: kind, Scope: scope, Counts: map[string]Count{}, Quarantined: []Quarantined{},
	}}
	for _, list := range p.remarks() {
		*list = []Remark{}
	}
	return p
}

func (r *Report) remarks() []*[]Remark {
	return []*[]Remark{&r.Differs, &r.Followed, &r.LeftOut, &r.Apart, &r.Ignored, &r.Unknown}
}

// Count calls add with the counts of a kind.
func (p *Part) Count(kind string, add func(*Count)) {
	c := p.Counts[kind]
	add(&c)
	p.Counts[kind] = c
}

// CountAll counts records by kind, as read and in one more column.
func (p *Part) CountAll(t Tally, column func(*Count) *int64) {
	for kind, n := range t {
		p.Count(kind, func(c *Count) {
			c.Read += n
			*column(c) += n
		})
	}
}

// New is the column for records that were not here.
func New(c *Count) *int64 { return &c.New }

// Already is the column for records that are here and the same.
func Already(c *Count) *int64 { return &c.Already }

// Changed is the column for records that differ from those imported before.
func Changed(c *Count) *int64 { return &c.Changed }

// Quarantine is the column for content that is not imported as records.
func Quarantine(c *Count) *int64 { return &c.Quarantined }

// Differ names a file that differs.
func (p *Part) Differ(file, reason string) { p.remark(&p.Differs, file, reason) }

// Contested names a file with a conflict over its thing.
func (p *Part) Contested(file, id, reason string) {
	p.Differ(file, fmt.Sprintf("%s; ours stays until somebody decides: migrate imports resolve %s --take "+
		"old, or ours", reason, quoted(id)))
}

var plainWord = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\w./:-]+$`)
})

// quoted is a word as a shell reads it.
func quoted(word string) string {
	if plainWord().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Follow names a file whose thing is now here as the old program has it.
func (p *Part) Follow(file, reason string) { p.remark(&p.Followed, file, reason) }

// LeaveOut names what an export could not write.
func (p *Part) LeaveOut(file, reason string) { p.remark(&p.LeftOut, file, reason) }

// KeepApart names a file whose records are in a separate scope.
func (p *Part) KeepApart(file, scope string) {
	p.remark(&p.Apart, file, fmt.Sprintf("its runs are in the scope %q: the tree has others under their ids",
		scope))
}

// Ignore counts a file that the old program does not read either, with the reason.
func (p *Part) Ignore(file, reason string) error {
	p.Files.Ignored++
	p.remark(&p.Report.Ignored, file, reason)
	return nil
}

// Aside names a row of the quarantine.
func (p *Part) Aside(q Quarantined) { addTo(p, &p.Quarantined, q) }

func (p *Part) remark(list *[]Remark, file, reason string) {
	addTo(p, list, Remark{File: Shown(file), Reason: reason})
}

// addTo appends to a list of the report as long as there is room.
func addTo[T any](p *Part, list *[]T, items ...T) {
	room := maxRemarks - len(*list)
	if len(items) > room {
		p.Truncated += int64(len(items) - room)
		items = items[:room]
	}
	*list = append(*list, items...)
}

// add adds a batch's counts, once the batch is committed.
func (p *Part) add(part *Part) {
	for kind, more := range part.Counts {
		p.Count(kind, func(c *Count) { sum(c, &more) })
	}
	sum(&p.Files, &part.Files)
	addTo(p, &p.Quarantined, part.Quarantined...)
	for i, list := range p.remarks() {
		addTo(p, list, *part.remarks()[i]...)
	}
	p.Truncated += part.Truncated
}

// sum adds the fields of a struct of int64 to those of another.
func sum[T any](into, more *T) {
	to, from := reflect.ValueOf(into).Elem(), reflect.ValueOf(more).Elem()
	for i := range to.NumField() {
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
}

// Auto is the kind of a report on several trees.
const Auto = "auto"

// Sum adds up the reports of several trees below dir.
func Sum(dir string, reports []Report) Report {
	total := newPart(Auto, "", dir)
	for i := range reports {
		total.Scope = reports[i].Scope
		total.add(&Part{reports[i]})
	}
	return total.Report
}
