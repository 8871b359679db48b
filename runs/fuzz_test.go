package runs

import (
	"bytes"
	"testing"
)

func FuzzReadLine(f *testing.F) {
	for _, recorded := range recordedLines(f) {
		f.Add([]byte(recorded.Line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line := readLine(text)
		if _, err := decodeSeed(text); (err == nil) != (line.kind == lineRecord) {
			t.Fatalf("%q: kind %d, decodeSeed says %v", text, line.kind, err)
		}
		if line.record == nil {
			return
		}
		encoded, err := encode(line.record)
		if err != nil {
			t.Fatalf("%q decodes but does not encode: %v", text, err)
		}
		again := readLine(encoded)
		if again.kind != line.kind || !sameLine(again.record, line.record) {
			t.Fatalf("%q encodes to %s, which reads as %+v, %v", text, encoded, again.record, again.err)
		}
		if second, err := encode(again.record); err != nil || !bytes.Equal(second, encoded) {
			t.Fatalf("%q encodes to %s, then to %s, %v", text, encoded, second, err)
		}
		if line.kind == lineRecord && line.raw() == nil {
			if columns := appendLine(nil, line.record, verbatim); !bytes.Equal(columns, text) {
				t.Fatalf("%q is said to be in its columns, which give %q", text, columns)
			}
		}
		if bytes.IndexByte(text, '\n') < 0 {
			if got := exported(t, line.record); got != string(text) {
				t.Fatalf("%q is exported as %q", text, got)
			}
		}
	})
}
