package workers

import (
	"bytes"
	"fmt"
	"slices"

	"selvedge/db"
	"selvedge/internal/tree"
)

// A piece is a runtime's folder that is being imported, or an entry of runtimes/ that is no
// runtime: a stray, which is one finding.
type piece struct {
	*tree.Tree
	*content
	stray bool
}

func strayPiece(t *tree.Tree, f tree.Finding) *piece {
	return &piece{t, &content{path: f.Path, findings: []tree.Finding{f}}, true}
}

// Path is the path of the folder.
func (t *piece) Path() string { return t.path }

// Held is the size of the runtime's files, or of a stray's bytes.
func (t *piece) Held() int {
	if t.stray {
		return len(t.findings[0].Raw)
	}
	return int(t.bytes)
}

// Progress counts all of its files, and none for a stray, as only the files of runtimes are counted
// in advance.
func (t *piece) Progress() (files, bytes int64) { return t.files, t.bytes }

// Prefetch announces the queries of Known or Take.
func (t *piece) Prefetch(f *tree.Prefetcher) error {
	if t.stray {
		f.About("file " + t.path)
		f.ExpectAside(1)
		return nil
	}
	f.File(t.path)
	if !f.Taken() {
		f.Aside(t.Tree, t.path)
		return nil
	}
	f.About("runtime " + string(t.id))
	f.Expect("worker_runtimes", 1)
	f.Expect("workers", len(t.workers))
	f.ExpectAside(len(t.findings))
	scope, ok, err := f.Rx.Store().Scope(t.Scope)
	if err == nil && ok {
		f.Ask(sqlFindRuntime, scope, string(t.id))
	}
	return err
}

// Known counts a runtime whose files are unchanged, or a stray that is in quarantine.
func (t *piece) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	if t.stray {
		q, ok, err := t.Source.Quarantined(rx, t.path, 0, t.findings[0].What)
		if ok {
			part.Files.Unreadable++
			part.Aside(q)
		}
		return ok, err
	}
	row, err := t.Source.File(rx, t.path)
	if err != nil || row == nil || !bytes.Equal(row.PrefixSHA256, t.sum) {
		return false, err
	}
	if row.State == tree.StateRefused {
		if _, there, err := findRuntime(rx, t.Scope, t.id); err != nil || !there {
			return false, err // the other runtime with its id is gone
		}
	}
	t.countTree(part)
	if row.State == tree.StateRefused {
		part.Files.Refused += t.files
		part.CountAll(t.records, tree.Quarantine)
	} else {
		part.Files.Already += t.files
		part.CountAll(t.records, tree.Already)
	}
	return true, t.NameAside(rx, t.path, t.broken, part)
}

func (t *content) countTree(part *tree.Part) {
	part.Files.Found += t.files
	part.Files.Bytes += t.bytes
	if t.broken > 0 {
		part.CountAll(tree.Tally{tree.Undecodable: t.broken}, tree.Quarantine)
	}
	part.CountAll(t.aside, tree.Quarantine)
	for _, path := range t.ignored {
		_ = part.Ignore(path, "nothing of the runtime is read from it")
	}
}

// Take imports a runtime that is new or has changed, and puts a stray into quarantine.
func (t *piece) Take(tx *db.Tx, part *tree.Part) error {
	if t.stray {
		part.Files.Unreadable++
		return t.Source.PutAside(tx, part, t.findings[0])
	}
	t.countTree(part)
	row, err := t.Source.File(&tx.Rx, t.path)
	if err != nil {
		return err
	}
	id := t.id
	here, there, err := findRuntime(&tx.Rx, t.Scope, id)
	if err != nil {
		return err
	}
	if row != nil && row.State == tree.StateTaken {
		were, err := tree.ParseTally(row.Records)
		if err != nil {
			return err
		}
		if !there || *row.EntityRow != here.Key || row.LastSequence != here.NextPosition ||
			here.FirstPosition > 1 || here.Running+here.Stopped+here.Cancelled < were["worker"] {
			part.Files.Changed += t.files
			part.CountAll(t.records, tree.Changed)
			part.Differ(t.path, fmt.Sprintf("the folder has changed, and runtime %q was written to or removed here "+
				"since it was imported: ours stays", id))
			return nil
		}
		return t.replace(tx, row, here, part)
	}
	err = t.Source.ReleaseBelow(tx, t.path, nil)
	if err == nil && row != nil {
		err = t.Source.Forget(tx, t.path)
	}
	if err != nil {
		return err
	}
	if !there {
		part.Files.New += t.files
		part.CountAll(t.records, tree.New)
		return t.add(tx, part)
	}
	ours, err := here.files(&tx.Rx)
	if err != nil {
		return err
	}
	counted := &tree.Part{Report: tree.Report{Counts: map[string]tree.Count{}}}
	if !compareRuntime(&t.runtimeFiles, &ours, counted) {
		part.Files.Already += t.files
		part.CountAll(t.records, tree.Already)
		if err := t.putAway(tx, part, (*tree.Finding).Only); err != nil {
			return err
		}
		return t.note(tx, tree.StateShared, here)
	}
	return t.refuse(tx, part)
}

// replace imports a runtime again if its folder has changed and it has not changed here.
func (t *piece) replace(tx *db.Tx, row *tree.Row, here *runtimeRow, part *tree.Part) error {
	ours, err := here.files(&tx.Rx)
	if err != nil {
		return err
	}
	compareRuntime(&t.runtimeFiles, &ours, part)
	if err := here.remove(tx); err != nil {
		return err
	}
	var still func(*tree.Aside) bool
	if bytes.Equal(row.PrefixSHA256, t.sum) { // a retry: remaining faults keep their rows
		still = t.found
	}
	if err := t.Source.ReleaseBelow(tx, t.path, still); err != nil {
		return err
	}
	return t.add(tx, part)
}

func (t *piece) add(tx *db.Tx, part *tree.Part) error {
	row, err := importRuntime(tx, t.Scope, &t.runtimeFiles)
	if err != nil {
		return err
	}
	if err := t.putAway(tx, part, func(*tree.Finding) bool { return true }); err != nil {
		return err
	}
	return t.note(tx, tree.StateTaken, row)
}

// putAway puts the findings in a runtime's folder into quarantine.
func (t *piece) putAway(tx *db.Tx, part *tree.Part, which func(*tree.Finding) bool) error {
	for i := range t.findings {
		if !which(&t.findings[i]) {
			continue
		}
		if err := t.Source.PutAside(tx, part, t.findings[i]); err != nil {
			return err
		}
	}
	return nil
}

// refuse leaves a runtime in its folder if another one has its id here. A row of the quarantine
// names it.
func (t *piece) refuse(tx *db.Tx, part *tree.Part) error {
	part.Files.Refused += t.files
	part.CountAll(t.records, tree.Quarantine)
	err := t.Source.PutAside(tx, part, tree.Finding{
		Path: t.path, What: tree.WhatConflict, Whose: &tree.Entity{Group: string(t.id)},
		Reason: fmt.Sprintf(
			"runtime %q is here already, from elsewhere and with other contents; import this tree into a scope "+
				"of its own", t.id),
	})
	if err != nil {
		return err
	}
	return t.note(tx, tree.StateRefused, nil)
}

// note writes the runtime's row of the ledger; row is nil if the runtime was refused. The bytes are
// in many files and do not count as consumed; the hash covers them.
func (t *piece) note(tx *db.Tx, state string, row *runtimeRow) error {
	noted := &tree.Row{
		Path: []byte(t.path), State: state, EntityGroup: string(t.id), Size: t.bytes,
		PrefixSHA256: t.sum, Records: t.records.String(),
	}
	if row != nil {
		noted.EntityRow, noted.LastSequence = &row.Key, row.NextPosition
	}
	return t.Source.Put(tx, noted)
}

// found reports whether a row of the quarantine is one of the findings.
func (t *piece) found(q *tree.Aside) bool {
	return slices.ContainsFunc(t.findings, func(f tree.Finding) bool {
		return f.Path == q.Path && f.Offset == q.ByteOffset && f.What == q.What && f.Reason == q.Reason
	})
}
