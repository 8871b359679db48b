package workers_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
	"selvedge/workers"
)

func TestTrees(t *testing.T) {
	replay.EachTree(t, "workers", checkWorkersTree)
}

func unpackWorkers(t *testing.T, tree replay.Tree) string {
	t.Helper()
	dir := t.TempDir()
	if err := tree.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "store")
}

func checkWorkersTree(t *testing.T, tree replay.Tree) {
	expected := decodedTree(t, tree)
	dir := unpackWorkers(t, tree)
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	report := importWorkers(t, d, dir)
	seen := lookAtWorkers(t, tree, d, report)
	for _, p := range seen.compare(expected) {
		t.Error(p)
	}
	t.Logf("%d runtimes compared, %d judged by rule 21", seen.opening, len(seen.runtimes)-seen.opening)
	again := importWorkers(t, d, dir)
	for kind, c := range again.Counts {
		if c.New+c.Changed > 0 {
			t.Errorf("a second import finds %+v %s", c, kind)
		}
	}
	verified, err := legacy.Verify(t.Context(), d, legacy.Workers, dir, legacy.Options{})
	if err != nil || len(verified.Differs) > 0 {
		t.Errorf("verify: %+v, %v", verified.Differs, err)
	}
	checkWorkersExport(t, d, dir, seen)
}

func decodedTree(t *testing.T, tree replay.Tree) map[string]any {
	t.Helper()
	expected, ok := must(replay.Decode(tree.Expected))(t).(map[string]any)
	if !ok {
		t.Fatalf("%s: what is expected is no object", tree.Name)
	}
	return expected
}

func importWorkers(t *testing.T, d *db.DB, dir string) legacy.Report {
	t.Helper()
	report, err := legacy.Import(t.Context(), d, legacy.Workers, dir, legacy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range report.Counts {
		if c.Read != c.New+c.Already+c.Changed+c.Quarantined {
			t.Errorf("the counts of %s don't add up: %+v", kind, c)
		}
	}
	return report
}

// workersAnswers gives the answers of an open runtime in the spelling of the expected ones.
func workersAnswers(ctx context.Context, r *workers.Runtime) (map[string]any, error) {
	answers := map[string]any{"open": map[string]bool{"ok": true}}
	summary, err := r.Summary(ctx)
	answers["summary"] = summary
	if err != nil {
		return nil, err
	}
	if answers["event_cursor_now"], err = r.EventCursorNow(ctx); err != nil {
		return nil, err
	}
	if answers["diagnostics"], err = r.Diagnostics(ctx); err != nil {
		return nil, err
	}
	list, err := r.ListWorkers(ctx)
	if err != nil {
		return nil, err
	}
	answers["list_workers"] = list
	events, pages, err := workersEvents(ctx, r, summary.Limits.MaxEventBatchItems)
	if err != nil {
		return nil, err
	}
	answers["events"], answers["event_pages"], answers["event_count"] = events, pages, len(events)
	details, transcripts, total := []workers.WorkerDetail{}, map[string]any{}, 0
	for _, w := range list {
		detail, err := r.WorkerDetail(ctx, w.WorkerRef)
		if err != nil {
			return nil, err
		}
		details = append(details, detail)
		entries, err := workersTranscript(ctx, r, w.WorkerRef, summary.Limits.MaxTranscriptProjectionItems)
		if err != nil {
			return nil, err
		}
		transcripts[string(w.WorkerID)] = entries
		total += len(entries)
	}
	answers["details"], answers["transcripts"], answers["transcript_count"] = details, transcripts, total
	return answers, nil
}

func workersEvents(ctx context.Context, r *workers.Runtime, page uint64) (list [][]any, pages int,
	err error,
) {
	list = [][]any{}
	cursor, err := r.EventCursorFromStart(ctx)
	for err == nil {
		var batch workers.RuntimeEventBatch
		if batch, err = r.ReadEvents(ctx, cursor, page); err != nil {
			break
		}
		pages++
		for _, e := range batch.Events {
			var worker any
			if e.WorkerRef != nil {
				worker = e.WorkerRef.WorkerID
			}
			list = append(list, []any{e.ID, string(e.Kind), worker, e.Message})
		}
		if !batch.HasMore || len(batch.Events) == 0 {
			break
		}
		cursor = batch.Cursor
	}
	return list, pages, err
}

func workersTranscript(ctx context.Context, r *workers.Runtime, ref workers.WorkerRef, page uint64) ([][]any,
	error,
) {
	list := [][]any{}
	for start := uint64(0); ; {
		p, err := r.TranscriptProjection(ctx, ref, workers.NewTranscriptQuery(start, page))
		if err != nil {
			return nil, err
		}
		for _, e := range p.Items {
			head := []rune(e.Content)
			list = append(list, []any{
				e.Sequence, e.Role, e.EventID, utf8.RuneCountInString(e.Content),
				string(head[:min(40, len(head))]),
			})
		}
		if p.NextStart == nil {
			return list, nil
		}
		start = *p.NextStart
	}
}

// checkWorkersExport expects files that are whole byte for byte, and a tree that the importer finds
// nothing wrong with.
func checkWorkersExport(t *testing.T, d *db.DB, dir string, seen *seenTree) {
	out := filepath.Join(t.TempDir(), "out")
	if _, err := legacy.Export(t.Context(), d, legacy.Workers, out, legacy.Options{}); err != nil {
		t.Fatal(err)
	}
	whole := 0
	for id, r := range seen.runtimes {
		if r.original.Err != nil {
			continue
		}
		for _, name := range []string{"runtime.json", "events.jsonl"} {
			path := filepath.Join("runtimes", replay.IDName(id), name)
			before, after := readText(t, filepath.Join(dir, path)), readText(t, filepath.Join(out, path))
			if withoutBlankLines(before) != withoutBlankLines(after) {
				t.Errorf("%s: %s left as other bytes than it came", id, name)
			}
			whole++
		}
	}
	t.Logf("%d files left as they came", whole)
	fresh := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	report := importWorkers(t, fresh, out)
	for _, q := range report.Quarantined {
		if !strings.Contains(q.Reason, "unknown variant") { // a word of a later version, kept as it came
			t.Errorf("the export is damaged: %s: %s", q.File, q.Reason)
		}
	}
	same, err := legacy.Import(t.Context(), d, legacy.Workers, out, legacy.Options{})
	if err != nil || len(same.Quarantined) > 0 {
		t.Errorf("the import of an export changes something: %+v, %v", same.Quarantined, err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func withoutBlankLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			fmt.Fprintln(&b, strings.TrimSuffix(line, "\n"))
		}
	}
	return b.String()
}
