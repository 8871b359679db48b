package legacy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/test/replay"
)

// typicalTree unpacks the recorded tree that is like real ones.
func typicalTree(tb testing.TB) string {
	tb.Helper()
	trees, err := replay.Trees("runs")
	if err != nil {
		tb.Fatal(err)
	}
	for _, tree := range trees {
		if tree.Name == "runs/typical" {
			return unpackTree(tb, tree)
		}
	}
	tb.Fatal("there is no typical tree")
	return ""
}

// BenchmarkImport and BenchmarkSeedReader are to be compared: an import takes at most twice the time.
func BenchmarkImport(b *testing.B) {
	dir := typicalTree(b)
	for _, level := range []struct {
		name string
		sync db.Synchronous
	}{{"full", db.SyncFull}, {"normal", db.SyncNormal}} {
		b.Run(level.name, func(b *testing.B) {
			for range b.N {
				d, err := db.Open(context.Background(), filepath.Join(b.TempDir(), "selvedge.db"),
					db.Options{Synchronous: level.sync})
				if err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				report, err := Import(context.Background(), d, Runs, dir, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/import")
				b.SetBytes(report.Files.Bytes)
				if err := d.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSeedReader(b *testing.B) {
	root := filepath.Join(typicalTree(b), "runs")
	for range b.N {
		if n := seedRead(b, root); n != 9023 {
			b.Fatalf("read %d records", n)
		}
	}
}

// seedRecord is what the original decodes a line into: its own types, and trees for free-form JSON.
type seedRecord struct {
	Record             string
	RunID              string     `json:"run_id"`
	AgentID            string     `json:"agent_id"`
	Intent             string     `json:"intent"`
	OutcomeDescription *string    `json:"outcome_description"`
	StartedAt          *time.Time `json:"started_at"`
	Index              uint64
	Prompt, Tool       *string
	Parameters, Output any
	CliOutcome         *struct {
		Kind string
		Code int64
	} `json:"cli_outcome"`
	VerifierVerdict string `json:"verifier_verdict"`
	PolicyRejected  *struct {
		Rule  string
		Param *string
	} `json:"policy_rejected"`
	Termination *struct {
		Kind, Status string
		Outcome      *struct {
			Status, Summary string
			Evidence        []struct {
				Kind, Description string
				Data              any
			}
			Metrics struct {
				Turns, Retries   uint32
				ToolCalls        uint32  `json:"tool_calls"`
				DurationMs       float64 `json:"duration_ms"`
				ActionsSucceeded uint32  `json:"actions_succeeded"`
				ActionsFailed    uint32  `json:"actions_failed"`
			}
			Timestamp time.Time
		}
	}
	EndedAt *time.Time `json:"ended_at"`
}

// seedRead reads a tree as the original's load_records does: a buffered reader, a line at a time,
// each checked to be UTF-8 and decoded.
func seedRead(tb testing.TB, root string) (records int) {
	for _, dir := range namesIn(tb, root) {
		at := filepath.Join(root, dir)
		if info, err := os.Stat(at); err != nil || !info.IsDir() {
			continue
		}
		for _, name := range namesIn(tb, at) {
			if strings.HasSuffix(name, ".jsonl") {
				records += len(seedLoad(tb, filepath.Join(at, name)))
			}
		}
	}
	return records
}

func seedLoad(tb testing.TB, path string) (list []seedRecord) {
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 && !utf8.Valid(line) {
			return list
		}
		var r seedRecord
		if len(bytes.TrimSpace(line)) > 0 && json.Unmarshal(line, &r) == nil {
			list = append(list, r)
		}
		if err != nil {
			return list
		}
	}
}
