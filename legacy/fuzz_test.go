package legacy

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/maintenance"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// FuzzTrees makes a tree of each kind from a number, and moves it there and back: imported, verified,
// imported again, exported, the export imported into another file, and both files checked. Under
// -fuzz, Go calls a tree that takes 10 s hung; on a busy machine, point TMPDIR to a folder in memory.
func FuzzTrees(f *testing.F) {
	for _, seed := range dbtest.Unseen(f, 2*len(Kinds())) {
		f.Add(uint8(seed%uint64(len(Kinds()))), seed)
	}
	f.Fuzz(func(t *testing.T, number uint8, seed uint64) {
		t.Parallel() // most of it is waiting for the disk
		kind := Kinds()[int(number)%len(Kinds())]
		dir := t.TempDir()
		newNovelTree(uint64(number), seed).files(kind).below(t, dir)
		judgeThereAndBack(t, kind, dir)
	})
}

func judgeThereAndBack(t *testing.T, kind Kind, dir string) {
	ctx := context.Background()
	d, clock := fileAt(t)
	imported, err := Import(ctx, d, kind, dir, Options{})
	if found, failed := Recognise(dir, Options{}); failed != nil || errors.Is(err, db.ErrNotFound) &&
		slices.ContainsFunc(found, func(f Found) bool { return f.Kind == kind && f.Dir == dir }) {
		t.Errorf("recognised are %+v, %v; the import: %v", found, failed, err)
	}
	if errors.Is(err, db.ErrNotFound) {
		return // nothing in it is of the kind
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("the import: %+v\nof %.3000q", imported, filesBelow(t, dir))
		}
	}()
	checkSums(t, "the import", &imported)
	clock.Advance(time.Hour)
	verified := checkSettled(t, d, kind, dir, &imported)
	files, report := exportedFiles(t, d, kind)
	given := filesBelow(t, dir)
	later := given["runtime.json"] != "" // laid out as later versions do, and not as an export is
	for path := range given {
		later = later || strings.HasPrefix(path, "v1/")
	}
	for path, text := range given {
		got, left := files[path]
		switch {
		case path == "runs/.nobackup", path == "agents/.lock": // only marks
		case kind == Live && (later || isTwice(text)) && hasRuns(files, text):
		case kind == Workers && leftAs(files, dir, path):
		case kind == Live && plainly(kind, path, text) == "[]": // a session without runs
		case left && plainly(kind, path, got) == plainly(kind, path, text):
		case refused(kind, &imported, path): // an export repairs a runtime that its program refuses
		case isNamed(path, &imported, &verified, &report):
		default:
			t.Errorf("%q is lost, and nothing says so: %s", path, firstOther(text, got))
		}
	}
	checkWhole(t, d)
	if len(files) > 0 {
		checkBack(t, d, kind, files, &imported, &report, later)
	}
}

// hasRuns reports whether an export has the runs of a document of a later version.
func hasRuns(files folder, text string) bool {
	out := map[string]bool{}
	for _, left := range files {
		for _, r := range recordsIn([]byte(left)) {
			out[r.Snapshot.ID] = true
		}
	}
	return !slices.ContainsFunc(recordsIn([]byte(text)),
		func(r live.RunRecord) bool { return !out[r.Snapshot.ID] })
}

// isTwice reports whether a session has two records of a run, of which the last counts.
func isTwice(text string) bool {
	ids := map[string]bool{}
	records := recordsIn([]byte(text))
	for _, r := range records {
		ids[r.Snapshot.ID] = true
	}
	return len(ids) < len(records)
}

// leftAs reports whether an export has a file of a runtime that had dir for itself.
func leftAs(files folder, dir, path string) bool {
	if worker, ok := strings.CutPrefix(path, "workers/"); ok {
		id, name, _ := strings.Cut(worker, "/")
		path = "workers/" + idName(id) + "/" + name
	}
	_, left := files["runtimes/"+idName(filepath.Base(dir))+"/"+path]
	return left
}

func checkSums(t *testing.T, what string, r *Report) {
	t.Helper()
	for kind, c := range r.Counts {
		if c.Read != c.New+c.Already+c.Changed+c.Quarantined {
			t.Errorf("%s counts %s as %+v", what, kind, c)
		}
	}
}

// checkSettled imports and verifies once more: nothing is new, nothing differs, not a row changes,
// and the proof is whole only if nothing was set aside.
func checkSettled(t *testing.T, d *db.DB, kind Kind, dir string, first *Report) Report {
	t.Helper()
	before := dump(t, d)
	again, err := Import(context.Background(), d, kind, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, "the second import", &again)
	for noun, c := range again.Counts {
		if c.New+c.Changed > 0 || c.Read != first.Counts[noun].Read ||
			c.Quarantined != first.Counts[noun].Quarantined {
			t.Errorf("the second import counts %s as %+v, the first as %+v", noun, c, first.Counts[noun])
		}
	}
	if diff := firstDifference(before, dump(t, d)); diff != "" {
		t.Errorf("the second import changed the file: %s", diff)
	}
	verified, err := Verify(context.Background(), d, kind, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Report{"the second import": &again, "verify": &verified} {
		if !slices.Equal(asides(r), asides(first)) {
			t.Errorf("%s names %q in quarantine, the import %q", name, asides(r), asides(first))
		}
		if !slices.Equal(r.Differs, first.Differs) {
			t.Errorf("%s: %+v, the import: %+v", name, r.Differs, first.Differs)
		}
	}
	if p := verified.Proof; p.Whole && verified.Partial() {
		t.Errorf("%s, in spite of %+v", p.Line, verified)
	} else if !p.Whole && !verified.Partial() && len(verified.Unknown)+len(verified.Apart) == 0 {
		t.Errorf("%s, and nothing says why", p.Line)
	}
	return verified
}

// asides are the rows of the quarantine that a report names.
func asides(r *Report) (list []string) {
	for _, q := range r.Quarantined {
		list = append(list, q.File+" "+q.What+": "+q.Reason)
	}
	slices.Sort(list)
	return list
}

// isNamed reports whether one of the reports names a file, or a folder that it is in.
func isNamed(path string, reports ...*Report) bool {
	at := tree.Shown(path)
	for _, r := range reports {
		if reasonFor(r, "./"+at) != "" { // as a runtime that is the root names its files
			return true
		}
		for _, remarks := range [][]Remark{r.LeftOut, r.Ignored, r.Unknown, r.Apart} {
			for _, remark := range remarks {
				if strings.HasSuffix("/"+at, "/"+remark.File) ||
					strings.HasSuffix(remark.File, "/") && strings.HasPrefix(at, remark.File) {
					return true
				}
			}
		}
	}
	return false
}

func checkWhole(t *testing.T, d *db.DB) {
	t.Helper()
	if x, err := maintenance.Check(context.Background(), d); err != nil || len(x.Problems) > 0 {
		t.Errorf("check: %+v, %v", x.Problems, err)
	}
}

// sourceTables tell of the folder that was imported.
var sourceTables = []string{
	"import_files", "import_sources", "import_settings", "quarantine", "quarantine_parts", "live_imports",
	"live_copies", "import_conflicts", "retention",
}

// checkBack imports an export into a file of its own: it has the same rows, but for their order if the
// files had other names, and exports the same files.
func checkBack(t *testing.T, d *db.DB, kind Kind, files folder, first, exported *Report, later bool) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "back")
	back, _ := fileAt(t)
	files.below(t, dir)
	imported, err := Import(context.Background(), back, kind, dir, Options{})
	if err != nil {
		t.Fatalf("the import of the export: %v", err)
	}
	checkSettled(t, back, kind, dir, &imported)
	checkWhole(t, back)
	defer func() {
		if t.Failed() {
			t.Logf("the import of the export: %+v\nof %.3000q", imported, files)
		}
	}()
	again, _ := exportedFiles(t, back, kind)
	for path, text := range files {
		if !refused(kind, &imported, path) && again[path] != text {
			t.Errorf("%q leaves a second time as\n%s", path, firstOther(text, again[path]))
		}
	}
	but := slices.Clone(sourceTables)
	if kind == Workers && (later || len(first.Quarantined) > 0) { // what was found wrong comes as a file now
		but = append(but, "worker_diagnostics", "worker_runtime_documents", "worker_documents")
	}
	if diff := firstDifference(dump(t, d, but...), dump(t, back, but...)); diff != "" &&
		len(first.Apart)+len(exported.LeftOut) == 0 && (kind != Live || !later) {
		t.Errorf("the import of the export has other rows: %s", diff)
	}
}
