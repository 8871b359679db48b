package runs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"selvedge/internal/chrono"
)

// traceFiles are the regular *.jsonl files of a recorded tree by folder/name.
func traceFiles(tb testing.TB, tree string) map[string][]byte {
	tb.Helper()
	file, err := os.Open("../testdata/legacy/runs/" + tree + ".tar.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string][]byte{}
	for in := tar.NewReader(unpacked); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			tb.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg || !strings.HasSuffix(head.Name, ".jsonl") {
			continue
		}
		if files[path.Base(path.Dir(head.Name))+"/"+path.Base(head.Name)], err = io.ReadAll(in); err != nil {
			tb.Fatal(err)
		}
	}
}

func expected(tb testing.TB, tree string, into any) {
	tb.Helper()
	file, err := os.Open("../testdata/legacy/runs/" + tree + ".expected.json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.NewDecoder(unpacked).Decode(into); err != nil {
		tb.Fatal(err)
	}
}

func linesOf(file []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(file, []byte{'\n'}), []byte{'\n'})
}

// recordedTrace is what the original found in one file of a tree.
type recordedTrace struct {
	AgentDir string `json:"agent_dir"`
	File     string
	Digest   *struct {
		SHA256  *string `json:"canonical_sha256"`
		Records int
	} `json:"trace_digest"`
	Inventory struct {
		Blank   int
		Skipped []struct {
			Line  int
			Error string
		}
		Stopped *struct{ Line int }
	}
}

func TestTraces_ReadLikeOriginal(t *testing.T) {
	for tree, want := range map[string]int{"small": 6, "typical": 342, "awkward": 31} {
		var recorded struct{ Runs []recordedTrace }
		expected(t, tree, &recorded)
		files := traceFiles(t, tree)
		compared := 0
		for _, run := range recorded.Runs {
			file, ok := files[run.AgentDir+"/"+run.File]
			if !ok || run.Digest == nil {
				continue
			}
			compared++
			compareTrace(t, tree, run, file)
		}
		if compared < want {
			t.Errorf("%s: %d traces compared, want %d", tree, compared, want)
		}
	}
}

func compareTrace(t *testing.T, tree string, run recordedTrace, file []byte) {
	t.Helper()
	digest, records, blank, skipped := sha256.New(), 0, 0, 0
	for i, text := range linesOf(file) {
		if len(file) == 0 || run.Inventory.Stopped != nil && i+1 == run.Inventory.Stopped.Line {
			break // the original reads no further than a line that is not UTF-8; we do
		}
		line := readLine(text)
		switch line.kind {
		case lineBlank:
			blank++
		case lineUnknown, lineUndecodable:
			if skipped >= len(run.Inventory.Skipped) || run.Inventory.Skipped[skipped].Line != i+1 ||
				run.Inventory.Skipped[skipped].Error != line.err.Reason {
				t.Errorf("%s %s line %d: skipped with %q; the original skipped %v", tree, run.File, i+1, line.err,
					run.Inventory.Skipped)
			}
			skipped++
		case lineRecord:
			encoded, err := encode(line.record)
			if err != nil {
				t.Fatal(err)
			}
			canonical, err := canonical(encoded)
			if err != nil {
				t.Fatal(err)
			}
			if records > 0 {
				digest.Write([]byte{'\n'})
			}
			digest.Write(canonical)
			records++
		}
	}
	if records != run.Digest.Records || blank != run.Inventory.Blank || skipped != len(run.Inventory.Skipped) {
		t.Errorf("%s %s: %d records, %d blank, %d skipped; the original: %d, %d, %d", tree, run.File,
			records, blank, skipped, run.Digest.Records, run.Inventory.Blank, len(run.Inventory.Skipped))
	}
	if got := hex.EncodeToString(digest.Sum(nil)); run.Digest.SHA256 != nil && got != *run.Digest.SHA256 {
		t.Errorf("%s %s: digest %s, the original's %s", tree, run.File, got, *run.Digest.SHA256)
	}
}

func TestEveryTypicalLineComesBackFromItsColumns(t *testing.T) {
	lines := 0
	for name, file := range traceFiles(t, "typical") {
		for i, text := range linesOf(file) {
			line := readLine(text)
			if line.kind != lineRecord || line.raw() != nil {
				t.Fatalf("%s line %d: kind %d, kept %q", name, i+1, line.kind, line.raw())
			}
			lines++
			if turn, ok := line.record.(Turn); ok {
				if got := appendLine(nil, columnsOf(turn), verbatim); !bytes.Equal(got, text) {
					t.Fatalf("%s line %d:\n%s\ncame back as\n%s", name, i+1, text, got)
				}
			} else if got := appendLine(nil, line.record, verbatim); !bytes.Equal(got, text) {
				t.Fatalf("%s line %d:\n%s\ncame back as\n%s", name, i+1, text, got)
			}
		}
	}
	if lines != 9023 {
		t.Errorf("%d lines, want 9023", lines)
	}
}

// columnsOf is the turn that a row of typed columns gives.
func columnsOf(t Turn) Turn {
	return Turn{
		Index: uint64(columnIndex(t.Index)), Prompt: t.Prompt, Tool: t.Tool, Parameters: t.Parameters,
		Output:     t.Output,
		CliOutcome: t.CliOutcome, VerifierVerdict: t.VerifierVerdict, PolicyRejected: t.PolicyRejected,
	}
}

func TestLines_LaterVersionsKeepBytesAndStatus(t *testing.T) {
	var recorded struct {
		Answers struct {
			Agents []struct {
				ListRuns []struct {
					AgentID string `json:"agent_id"`
					RunID   string `json:"run_id"`
					EndedAt string `json:"ended_at"`
					Status  string
				} `json:"list_runs"`
			}
		} `json:"answers_of_0.60.0"`
	}
	expected(t, "later", &recorded)
	want := map[string]string{}
	for _, agent := range recorded.Answers.Agents {
		for _, run := range agent.ListRuns {
			if run.Status == laterCancelled || run.Status == laterCancellationPending {
				want[run.AgentID+"/"+strings.ReplaceAll(run.RunID, ":", "_")+".jsonl"] = run.Status + " " + run.EndedAt
			}
		}
	}
	if len(want) != 3 {
		t.Fatalf("recorded: %v", want)
	}
	for name, file := range traceFiles(t, "later") {
		status := ""
		for i, text := range linesOf(file) {
			line := readLine(text)
			if line.kind != lineRecord && line.kind != lineUnknown {
				t.Errorf("%s line %d: kind %d, %v", name, i+1, line.kind, line.err)
				continue
			}
			if got := exported(t, line.record); got != string(text) {
				t.Errorf("%s line %d: exported as %s", name, i+1, got)
			}
			switch r := line.record.(type) {
			case Ended:
				status = ""
			case Unknown:
				if s := r.status(); s.word == laterCancelled {
					status = s.word + " " + chrono.Format(s.endedAt)
				} else if s.word != "" {
					status = s.word + " "
				}
			}
		}
		if status != want[name] {
			t.Errorf("%s: status %q, 0.60.0 says %q", name, status, want[name])
		}
	}
}
