package original

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

// traceLines are the lines that the original wrote into a recorded tree.
func traceLines(t *testing.T) (list [][]byte) {
	t.Helper()
	file, err := os.Open("../../testdata/legacy/runs/typical.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(unpacked); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg || !strings.HasSuffix(head.Name, ".jsonl") {
			continue
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			list = append(list, line)
		}
	}
}

func TestLines_ReadLikeEncodingJSON(t *testing.T) {
	list := traceLines(t)
	for _, line := range list {
		var want Record
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		got, err := DecodeRecord(line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n got %+v\nwant %+v\nof %s", err, got, want, line)
		}
	}
	if len(list) != 9023 {
		t.Errorf("%d lines", len(list))
	}
	for _, line := range []string{
		"", "{", "[]", `{"record":"other"}`, `{"record":"turn","index":-1}`,
		`{"record":"turn"} x`, `{"record":"turn","output":{"a":}}`,
	} {
		if _, err := DecodeRecord([]byte(line)); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}

// Rust's serde_json took 0.16 s for 10,000 files of three turns where encoding/json took 1.2 s,
// side by side (22 November 2026). A baseline may not be slower than the original's own code.
func TestLines_ReadAsFastAsOriginal(t *testing.T) {
	const share = 0.4 // these lines are shorter than those
	list := traceLines(t)[:2000]
	inGo, baseline := sideBySide(t, list,
		func(line []byte) error { var r Record; return json.Unmarshal(line, &r) },
		func(line []byte) error { _, err := DecodeRecord(line); return err })
	t.Logf("encoding/json %v a line, the baseline %v", inGo, baseline)
	if float64(baseline) > share*float64(inGo) {
		t.Errorf("the baseline takes %v a line, encoding/json %v", baseline, inGo)
	}
}
