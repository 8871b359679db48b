package legacy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/runs"
)

// oddTrace is a trace with everything that can be wrong with one.
func oddTrace(random *rand.Rand, agent, run string) string {
	var b strings.Builder
	b.WriteString(startedLine(agent, run))
	for i := range 1 + random.IntN(8) {
		switch random.IntN(9) {
		case 0:
			b.WriteString("{\"record\":\"turn\",\"ind\n")
		case 1:
			b.WriteString("\n  \n")
		case 2:
			b.WriteString("\xff not UTF-8\n")
		case 3:
			b.WriteString(`{"record":"model_turn","index":1,"é":"ü"}` + "\n")
		case 4:
			b.WriteString(strings.TrimSuffix(turnLine(i), "\n") + "\r\n")
		case 5:
			b.WriteString(endedLine(agent, run))
		default:
			b.WriteString(turnLine(i))
		}
	}
	text := b.String()
	if random.IntN(3) == 0 {
		text = text[:len(text)-1-random.IntN(20)]
	}
	return text
}

// TestAGrowingFileIsPickedUpWhereItWas grows a file by random steps, in the middle of lines and
// characters too. After each the export is the file, and at the end everything is as if the file
// had been imported once.
func TestAGrowingFileIsPickedUpWhereItWas(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 25 {
		text := oddTrace(random, "a", "r")
		dir := folder{"a/r.jsonl": ""}.make(t)
		grown := emptyFile(t)
		for end := 0; ; end = min(len(text), end+1+random.IntN(90)) {
			folder{"a/r.jsonl": text[:end]}.in(t, dir)
			importInto(t, grown, "", dir)
			if got := exported(t, grown, "")["a/r.jsonl"]; got != text[:end] {
				t.Fatalf("round %d: after %d bytes the export is\n%q, not\n%q", round, end, got, text[:end])
			}
			if end == len(text) {
				break
			}
		}
		once := emptyFile(t)
		importInto(t, once, "", dir)
		if want, got := inQuarantine(t, once, ""),
			inQuarantine(t, grown, ""); !slices.Equal(slices.Sorted(slices.Values(want)),
			slices.Sorted(slices.Values(got))) {
			t.Errorf("round %d: in quarantine is %q, and %q after one import", round, got, want)
		}
		for _, column := range []string{
			"status || coalesce(turn_count, -1) || others || coalesce(ended_at, 0)",
			"coalesce(intent, '')",
		} {
			if want, got := column1(t, once, column), column1(t, grown, column); want != got {
				t.Errorf("round %d: %s is %s, and %s after one import of\n%s", round, column, got, want, text)
			}
		}
		if want, got := ledgerText(t, once), ledgerText(t, grown); want != got {
			t.Errorf("round %d: the ledger says\n%s, and after one import\n%s", round, got, want)
		}
	}
}

func column1(t *testing.T, d *db.DB, column string) (text string) {
	t.Helper()
	err := d.Read(context.Background(), "test",
		func(rx *db.Rx) error { return rx.Get(&text, "SELECT "+column+" FROM runs") })
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func ledgerText(t *testing.T, d *db.DB) (text string) {
	t.Helper()
	err := d.Read(context.Background(), "test", func(rx *db.Rx) error {
		return rx.Get(&text, `SELECT group_concat(
			quote(path)||state||last_sequence||' '||size||' '||consumed||hex(prefix_sha256)||open_line||records||
			quote(tail), x'0a') FROM import_files`)
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAGrownFileCountsWhatIsNew(t *testing.T) {
	text := startedLine("a", "r") + turnLine(0)
	dir := folder{"a/r.jsonl": text}.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	folder{"a/r.jsonl": text + turnLine(1) + endedLine("a", "r")}.in(t, dir)
	report := importInto(t, d, "", dir)
	if report.Files.Grown != 1 || report.Counts["turn"] != (Count{Read: 2, New: 1, Already: 1}) ||
		report.Counts["ended"] != (Count{Read: 1, New: 1}) {
		t.Errorf("%+v %+v", report.Files, report.Counts)
	}
}

func TestImport_HalfWrittenLineIsNamed(t *testing.T) {
	text := startedLine("a", "r") + turnLine(0)
	torn := len(text) - 9
	dir := folder{"a/r.jsonl": text[:torn]}.make(t)
	d := emptyFile(t)
	if report := importInto(t, d, "", dir); len(report.Quarantined) != 1 {
		t.Fatalf("%+v", report.Quarantined)
	}
	folder{"a/r.jsonl": text[:torn+4]}.in(t, dir)
	if report := importInto(t, d, "", dir); len(report.Quarantined) != 1 {
		t.Errorf("still torn: %+v", report.Quarantined)
	}
	folder{"a/r.jsonl": text}.in(t, dir)
	if report := importInto(t, d, "", dir); report.Partial() {
		t.Errorf("whole: %+v", report.Quarantined)
	}
}

func TestImport_TakesChangedSourceIfOursUntouched(t *testing.T) {
	before := startedLine("a", "r") + turnLine(0) + "torn\n"
	for name, after := range map[string]string{
		"other bytes":          startedLine("a", "r") + turnLine(7) + turnLine(8),
		"shorter":              startedLine("a", "r"),
		"empty":                "",
		"a broken end of line": strings.TrimSuffix(before, "\n") + "x",
	} {
		dir := folder{"a/r.jsonl": before}.make(t)
		d := emptyFile(t)
		importInto(t, d, "", dir)
		folder{"a/r.jsonl": after}.in(t, dir)
		report := importInto(t, d, "", dir)
		if report.Files.Changed != 1 || len(report.Differs) != 0 {
			t.Errorf("%s: %+v %v", name, report.Files, report.Differs)
		}
		sameFiles(t, name, folder{"a/r.jsonl": after}, exported(t, d, ""))
		if again := importInto(t, d, "", dir); again.Files.Already != 1 {
			t.Errorf("%s, again: %+v", name, again.Files)
		}
	}
}

func TestAChangedSourceStaysOutWhenOursWasTouched(t *testing.T) {
	before := startedLine("a", "r") + turnLine(0)
	for name, after := range map[string]string{
		"changed": startedLine("a", "r") + turnLine(7),
		"grown":   before + turnLine(1),
	} {
		dir := folder{"a/r.jsonl": before}.make(t)
		d := emptyFile(t)
		importInto(t, d, "", dir)
		store := runs.NewStore(d, runs.Options{})
		prompt := "ours"
		if err := store.AppendTurns(context.Background(), "a", "r",
			[]runs.Turn{{Index: 1, Prompt: &prompt}}); err != nil {
			t.Fatal(err)
		}
		ours := exported(t, d, "")
		folder{"a/r.jsonl": after}.in(t, dir)
		for range 2 {
			report := importInto(t, d, "", dir)
			if report.Files.Changed != 1 || len(report.Differs) != 1 || !report.Partial() {
				t.Errorf("%s: %+v %v", name, report.Files, report.Differs)
			}
			sameFiles(t, name, ours, exported(t, d, ""))
		}
		verified, err := Verify(context.Background(), d, Runs, dir, Options{})
		if err != nil || len(verified.Differs) == 0 {
			t.Errorf("%s: verify says %v, %v", name, verified.Differs, err)
		}
	}
}

func TestARunThatWasRemovedHereStaysRemoved(t *testing.T) {
	dir := folder{"a/r.jsonl": startedLine("a", "r") + endedLine("a", "r")}.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	if n, err := runs.NewStore(d, runs.Options{}).GC(context.Background()); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	if report := importInto(t, d, "", dir); report.Files.Already != 1 {
		t.Errorf("%+v", report.Files)
	}
	wantNames(t, d, "")
}

func TestVerifyFindsWhatDiffersAndWritesNothing(t *testing.T) {
	text := startedLine("a", "r") + turnLine(0) + turnLine(1)
	dir := folder{"a/r.jsonl": text, "a/same.jsonl": startedLine("a", "same")}.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	changed := strings.Replace(text, "p0", "pX", 1) + turnLine(2)
	folder{"a/r.jsonl": changed, "b/new.jsonl": startedLine("b", "new")}.in(t, dir)
	before := dump(t, d)
	report, err := Verify(context.Background(), d, Runs, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Counts["turn"] != (Count{Read: 3, Already: 1, Changed: 1, New: 1}) ||
		report.Counts["started"] != (Count{Read: 3, Already: 2, New: 1}) {
		t.Errorf("%+v", report.Counts)
	}
	want := []Remark{
		{File: "a/r.jsonl", Reason: `the file has changed since it was imported as run "r" of agent "a": ` +
			"1 line not as the file gives it, the first line 2 (prompt); 1 line of the file not here"},
		{File: "b/new.jsonl", Reason: `was not imported: run "new" of agent "b"`},
	}
	if !slices.Equal(report.Differs, want) {
		t.Errorf("%+v", report.Differs)
	}
	if diff := firstDifference(before, dump(t, d)); diff != "" {
		t.Errorf("verify wrote: %s", diff)
	}
	other := t.TempDir() // the same tree elsewhere
	folder{"a/r.jsonl": text}.in(t, other)
	report, err = Verify(context.Background(), d, Runs, other, Options{})
	if err != nil || report.Partial() || report.Counts["turn"].Already != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	report, err = Verify(context.Background(), d, Runs, other, Options{Scope: "nowhere"})
	if err != nil || report.Counts["turn"].New != 2 || !report.Partial() {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestAFileThatIsGoneStays(t *testing.T) {
	dir := folder{"a/r.jsonl": startedLine("a", "r"), "a/s.jsonl": startedLine("a", "s")}.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	if err := os.Remove(filepath.Join(dir, "runs/a/s.jsonl")); err != nil {
		t.Fatal(err)
	}
	if report := importInto(t, d, "", dir); report.Files.Gone != 1 || report.Partial() {
		t.Errorf("%+v", report.Files)
	}
	wantNames(t, d, "", "a/r", "a/s")
}

// TestImport_StoppedKeepsReportAndResumes stops after each batch in turn.
func TestImport_StoppedKeepsReportAndResumes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	files := folder{}
	for i := range 12 {
		files[fmt.Sprintf("a%d/r.jsonl", i)] = oddTrace(random, fmt.Sprint("a", i), "r")
	}
	dir := files.make(t)
	once := emptyFile(t)
	o := Options{BatchBytes: 200}
	if _, err := Import(context.Background(), once, Runs, dir, o); err != nil {
		t.Fatal(err)
	}
	d := emptyFile(t)
	total := int64(0)
	for stops := 0; ; stops++ {
		ctx, cancel := context.WithCancel(context.Background())
		batches := 0
		o.Progress = func(Progress) {
			if batches++; batches > 2 {
				cancel()
			}
		}
		report, err := Import(ctx, d, Runs, dir, o)
		cancel()
		for _, c := range report.Counts {
			total += c.New
		}
		if err == nil {
			if stops < 5 {
				t.Errorf("stopped only %d times", stops)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if diff := firstDifference(dump(t, once), dump(t, d)); diff != "" {
		t.Errorf("stopped and gone on with: %s", diff)
	}
	var want int64
	lines := func(rx *db.Rx) error {
		return rx.Get(&want, `SELECT count(*) FROM run_records WHERE kind <> 'opaque' OR trim(raw, x'200d') = ''`)
	}
	if err := d.Read(context.Background(), "test", lines); err != nil {
		t.Fatal(err)
	}
	if total < want {
		t.Errorf("the reports count %d new records, the file has %d", total, want)
	}
}

func TestProgressReachesItsTotal(t *testing.T) {
	dir := folder{
		"a/r.jsonl": startedLine("a", "r") + "torn", "b/s.jsonl": startedLine("b", "s"),
		"b/t.jsonl": "",
	}.make(t)
	d := emptyFile(t)
	for range 2 {
		var last Progress
		if _, err := Import(context.Background(), d, Runs, dir,
			Options{Progress: func(p Progress) { last = p }}); err != nil {
			t.Fatal(err)
		}
		if last.Files != 3 || last.TotalFiles != 3 || last.Bytes != last.TotalBytes || last.Bytes == 0 {
			t.Errorf("%+v", last)
		}
	}
}
