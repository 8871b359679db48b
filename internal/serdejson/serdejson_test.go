package serdejson_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"selvedge/internal/serdejson"
)

func TestJSON_RefusedInOriginalWords(t *testing.T) {
	for text, want := range map[string]string{
		``:             "EOF while parsing a value at line 1 column 0",
		` x`:           "expected value at line 1 column 2",
		`nul`:          "EOF while parsing a value at line 1 column 3",
		`nulL`:         "expected ident at line 1 column 4",
		"{\"a\":1,\n}": "trailing comma at line 2 column 1",
		`{"a" 1}`:      "expected `:` at line 1 column 6",
		`[1 2]`:        "expected `,` or `]` at line 1 column 4",
		`[1,`:          "EOF while parsing a value at line 1 column 3",
		`{"a":1`:       "EOF while parsing an object at line 1 column 6",
		`"\ud800"`:     "unexpected end of hex escape at line 1 column 8",
		`"\q"`:         "invalid escape at line 1 column 3",
		"\"\t\"": "control character (\\u0000-\\u001F) found while parsing a string at line " +
			"1 column 2",
		`01`:                      "invalid number at line 1 column 2",
		`1e400`:                   "number out of range at line 1 column 5",
		"\"\xff\"":                "stream did not contain valid UTF-8",
		"{\n \"record\":\n nul":   "EOF while parsing a value at line 3 column 4",
		`{} {}`:                   "trailing characters at line 1 column 4",
		strings.Repeat("[", 128):  "recursion limit exceeded at line 1 column 128",
		"1\x00":                   "trailing characters at line 1 column 2",
		`{"a":[1,2,{"b":null}]} `: "",
		`-0.5e-3`:                 "",
	} {
		if got := serdejson.Check([]byte(text), 0); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func TestWhatStandsAboveCountsAgainstTheDepth(t *testing.T) {
	deep := []byte(strings.Repeat("[", 125) + strings.Repeat("]", 125))
	if got := serdejson.Check(deep, 2); got != "" {
		t.Errorf("127 levels: %s", got)
	}
	if got := serdejson.Check(deep, 3); got != "recursion limit exceeded at line 1 column 125" {
		t.Errorf("128 levels: %q", got)
	}
}

func TestIgnoreLooksAtNothingButTheEnd(t *testing.T) {
	deep := strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000)
	for _, text := range []string{deep, `1e400`, `"\ud800"`, `{"a":[{}, {"b":1e999}]}`} {
		s := serdejson.NewScanner([]byte(text))
		if got, ok := s.Ignore(); !ok || len(got) != len(text) {
			t.Errorf("%.40q was not ignored: %s", text, s.Reason())
		}
	}
	s := serdejson.NewScanner([]byte(`[1,]`))
	if _, ok := s.Ignore(); ok {
		t.Error("a torn list was ignored")
	}
}

// Ran: serde_json 1.0.154 with float_roundtrip, through car-proto 0.27.0.
func TestCanonicalFormsAreWhatTheOriginalsWrite(t *testing.T) {
	for text, want := range map[string]string{
		` { "b" : 1 , "a" : [ ] } `:      `{"a":[],"b":1}`,
		` [ 1 , "a" , { } ] `:            `[1,"a",{}]`,
		`{"a":1,"a":2}`:                  `{"a":2}`,
		`{"b":1,"a":2,"b":3}`:            `{"a":2,"b":3}`,
		`{"\u0062":1,"a":{"d":1,"c":2}}`: `{"a":{"c":2,"d":1},"b":1}`,
		`{"é":1,"z":2,"":3,"Z":4}`:       `{"":3,"Z":4,"z":2,"é":1}`,
		`"\u0041\/\n\u001f\u2028"`:       "\"A/\\n\\u001f\u2028\"",
		`"\ud83d\ude00"`:                 `"😀"`,

		`"\u003c\/\u00e9\ud83d\ude00\u0001\u007f\b\"\\"`: "\"</é😀\\u0001\x7f\\b\\\"\\\\\"",

		"1E5":                    "100000.0",
		"1e15":                   "1000000000000000.0",
		"1e16":                   "1e+16",
		"1.5e16":                 "1.5e+16",
		"12345678901234567.0":    "1.2345678901234568e+16",
		"1e-5":                   "0.00001",
		"0.000015":               "0.000015",
		"1e-6":                   "1e-6",
		"1e-7":                   "1e-7",
		"1e23":                   "1e+23",
		"9007199254740993.0":     "9007199254740992.0",
		"5e-324":                 "5e-324",
		"1.7976931348623157e308": "1.7976931348623157e+308",
		"-0":                     "-0.0",
		"-0.0":                   "-0.0",
		"0.0":                    "0.0",
		"1e-400":                 "0.0",
		"18446744073709551615":   "18446744073709551615",
		"18446744073709551616":   "1.8446744073709552e+19",
		"-9223372036854775808":   "-9223372036854775808",
		"-9223372036854775809":   "-9.223372036854776e+18",
	} {
		if got, ok := serdejson.AppendCanonical(nil, []byte(text)); string(got) != want || !ok {
			t.Errorf("%s: %s, %v, want %s", text, got, ok, want)
		}
	}
}

func TestDamagedValuesAreNotOk(t *testing.T) {
	for _, text := range []string{
		"", " ", "x", `"a`, "tru", "-", "1.", "1 2", "[1", "[1 2]", "[,]",
		`{"a":`, `{"a":q}`, `{"a" 1}`, `{"a":1`, `{}}`,
	} {
		if got, ok := serdejson.AppendCanonical(nil, []byte(text)); ok {
			t.Errorf("%q becomes %s", text, got)
		}
	}
}

func TestFloatsReadBackAsThemselves(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		f := math.Float64frombits(random.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		written := serdejson.AppendFloat([]byte{'x'}, f)
		if got, err := strconv.ParseFloat(string(written[1:]), 64); err != nil || got != f {
			t.Fatalf("%v is written as %s", f, written)
		}
	}
}
