package traces

import (
	"bytes"
	"testing"
)

func FuzzReadLine(f *testing.F) {
	for _, recorded := range recordedLines(f) {
		f.Add([]byte(recorded.Line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line := ReadLine(text)
		if _, err := Decode(text); (err == nil) != (line.Kind == LineRecord) {
			t.Fatalf("%q: kind %d, Decode says %v", text, line.Kind, err)
		}
		if line.Record == nil {
			return
		}
		encoded, err := Encode(line.Record)
		if err != nil {
			t.Fatalf("%q decodes but does not encode: %v", text, err)
		}
		again := ReadLine(encoded)
		if again.Kind != line.Kind || !SameLine(again.Record, line.Record) {
			t.Fatalf("%q encodes to %s, which reads as %+v, %v", text, encoded, again.Record, again.Err)
		}
		if second, err := Encode(again.Record); err != nil || !bytes.Equal(second, encoded) {
			t.Fatalf("%q encodes to %s, then to %s, %v", text, encoded, second, err)
		}
		if line.Kind == LineRecord && line.raw() == nil {
			if columns := appendLine(nil, line.Record, verbatim); !bytes.Equal(columns, text) {
				t.Fatalf("%q is said to be in its columns, which give %q", text, columns)
			}
		}
		if bytes.IndexByte(text, '\n') < 0 {
			if got := exported(t, line.Record); got != string(text) {
				t.Fatalf("%q is exported as %q", text, got)
			}
		}
	})
}
