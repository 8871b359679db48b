package legacy

// Report is what an import, a verification or an export ends with. Its JSON is the contract of the command line.
type Report struct {
	Source string `json:"source"` // the folder, absolute, links resolved
	Kind   string `json:"kind"`
	Scope  string `json:"scope"`
	// Counts has an entry for every kind of record that was met. In each, Read is the sum of the other four.
	Counts map[string]Count `json:"counts"`
	Files  Files            `json:"files"`
	// Quarantined are the rows of the quarantine that this call made or, for files that can't be taken, found again.
	Quarantined []Quarantined `json:"quarantined"`
	// Differs names what differs between folder and file and was left as it is.
	Differs []Remark `json:"differs"`
	// LeftOut names what an export could not write, or wrote without being able to say all of it.
	LeftOut []Remark `json:"left_out"`
	// Ignored names files of the folder that the old program does not read either.
	Ignored []Remark `json:"ignored"`
	// Truncated is the number of further entries of the four lists: each holds at most 1,000.
	Truncated int64 `json:"truncated"`
}

// Count is what became of the records of one kind.
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
	Gone       int64 `json:"gone"`       // imported before and no longer in the folder; what was imported stays
	Bytes      int64 `json:"bytes"`      // of the files read
}

// Remark is a remark on a file.
type Remark struct {
	File   string `json:"file"` // relative to the source; bytes that are no UTF-8 are shown as \xFF
	Reason string `json:"reason"`
}

// maxRemarks bounds each list of a report: memory stays flat on a tree where everything is wrong.
const maxRemarks = 1000

// Partial reports whether something was quarantined, left out or differs.
func (r *Report) Partial() bool {
	return len(r.Quarantined) > 0 || len(r.Differs) > 0 || len(r.LeftOut) > 0
}

func newReport(kind, scope, source string) Report {
	return Report{
		Source: shown(source), Kind: kind, Scope: scope, Counts: map[string]Count{},
		Quarantined: []Quarantined{}, Differs: []Remark{}, LeftOut: []Remark{}, Ignored: []Remark{},
	}
}

func (r *Report) count(kind string, add func(*Count)) {
	c := r.Counts[kind]
	add(&c)
	r.Counts[kind] = c
}

func (r *Report) remark(list *[]Remark, file, reason string) {
	if len(*list) == maxRemarks {
		r.Truncated++
		return
	}
	*list = append(*list, Remark{File: shown(file), Reason: reason})
}

func (r *Report) quarantined(q Quarantined) {
	if len(r.Quarantined) == maxRemarks {
		r.Truncated++
		return
	}
	r.Quarantined = append(r.Quarantined, q)
}

// ignore counts a file that the old program does not read either, and says why not.
func (r *Report) ignore(file, reason string) error {
	r.Files.Ignored++
	r.remark(&r.Ignored, file, reason)
	return nil
}

// add puts what a batch counted into r, once the batch is committed.
func (r *Report) add(part *Report) {
	for kind, p := range part.Counts {
		r.count(kind, func(c *Count) {
			c.Read += p.Read
			c.New += p.New
			c.Already += p.Already
			c.Changed += p.Changed
			c.Quarantined += p.Quarantined
		})
	}
	f, p := &r.Files, &part.Files
	f.Found += p.Found
	f.New += p.New
	f.Grown += p.Grown
	f.Already += p.Already
	f.Changed += p.Changed
	f.Refused += p.Refused
	f.Unreadable += p.Unreadable
	f.Ignored += p.Ignored
	f.Gone += p.Gone
	f.Bytes += p.Bytes
	for _, q := range part.Quarantined {
		r.quarantined(q)
	}
	join := func(into *[]Remark, more []Remark) {
		room := maxRemarks - len(*into)
		if len(more) > room {
			r.Truncated += int64(len(more) - room)
			more = more[:room]
		}
		*into = append(*into, more...)
	}
	join(&r.Differs, part.Differs)
	join(&r.LeftOut, part.LeftOut)
	join(&r.Ignored, part.Ignored)
	r.Truncated += part.Truncated
}
