package serdejson_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"selvedge/internal/serdejson"
)

// Beside these, what encoding/json takes for JSON is what the originals do.
var onlyTheOriginalsRefuse = []string{
	serdejson.NotUTF8, "recursion limit exceeded", "number out of range",
	"hex escape",
}

func FuzzCheckAndCanonical(f *testing.F) {
	for _, text := range []string{
		` {"b":[1,-0,1.50,1e400],"a":"\ud83d\ude00\/\u0041\t","a":null} `, `[true,false,"é` + "\xff" + `\ud800"]`,
		`{"":{},"x":[[]]}x`,
		`[18446744073709551616,-9223372036854775809,5e-324]`, strings.Repeat(`[`, 128) + strings.Repeat(`]`, 128),
		"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reason := serdejson.Check(text, 0)
		if json.Valid(text) != (reason == "") &&
			!slices.ContainsFunc(onlyTheOriginalsRefuse, func(r string) bool { return strings.Contains(reason, r) }) {
			t.Fatalf("%q: %q", text, reason)
		}
		canonical, ok := serdejson.AppendCanonical(nil, text)
		if reason != "" {
			return // a damaged value: no panic is enough
		}
		again, same := serdejson.AppendCanonical(nil, canonical)
		if !ok || !same || !bytes.Equal(again, canonical) {
			t.Fatalf("%q becomes %s, %v, then %s, %v", text, canonical, ok, again, same)
		}
		var was, is any
		if err := json.Unmarshal(text, &was); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(canonical, &is); err != nil || !reflect.DeepEqual(was, is) {
			t.Fatalf("%q becomes %s, which says something else: %v", text, canonical, err)
		}
	})
}
