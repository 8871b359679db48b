package runs

import (
	"encoding/json"
	"sort"
	"testing"
)

// typicalTurns are turn lines of about 2 KB from the typical tree.
func typicalTurns(b *testing.B) [][]byte {
	b.Helper()
	files := traceFiles(b, "typical")
	var names []string
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	var turns [][]byte
	for _, name := range names {
		for _, text := range linesOf(files[name]) {
			if len(text) > 1800 && len(text) < 2200 && len(turns) < 22 {
				turns = append(turns, text)
			}
		}
	}
	return turns
}

// perTurn reports the cost of one line, and of the 22 of a typical trace as one op.
func perTurn(b *testing.B, read func([]byte) error) {
	turns := typicalTurns(b)
	size := 0
	for _, text := range turns {
		size += len(text)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, text := range turns {
			if err := read(text); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(turns)), "ns/turn")
}

func BenchmarkDecodeTurn(b *testing.B) {
	b.Run("codec", func(b *testing.B) {
		perTurn(b, func(text []byte) error { _, err := decodeSeed(text); return err })
	})
	b.Run("import", func(b *testing.B) {
		perTurn(b, func(text []byte) error { return importError(readLine(text)) })
	})
	b.Run("encoding-json", func(b *testing.B) {
		type turn struct {
			Record          string          `json:"record"`
			Index           uint64          `json:"index"`
			Prompt          *string         `json:"prompt"`
			Tool            *string         `json:"tool"`
			Parameters      json.RawMessage `json:"parameters"`
			Output          json.RawMessage `json:"output"`
			CliOutcome      *CliOutcome     `json:"cli_outcome"`
			VerifierVerdict string          `json:"verifier_verdict"`
		}
		perTurn(b, func(text []byte) error { var t turn; return json.Unmarshal(text, &t) })
	})
}

func BenchmarkLineOfColumns(b *testing.B) {
	turns := map[string]Turn{}
	for _, text := range typicalTurns(b) {
		turns[string(text)] = readLine(text).record.(Turn)
	}
	var buffer []byte
	perTurn(b, func(text []byte) error {
		buffer = appendLine(buffer[:0], turns[string(text)], verbatim)
		return nil
	})
}

func BenchmarkRowOfTurn(b *testing.B) {
	turns := map[string]Turn{}
	for _, text := range typicalTurns(b) {
		turns[string(text)] = columnsOf(readLine(text).record.(Turn))
	}
	perTurn(b, func(text []byte) error { _, err := rowOf(turns[string(text)]); return err })
}

func importError(line parsedLine) error {
	if line.err != nil {
		return line.err
	}
	return nil
}
