package serdejson_test

import (
	"strings"
	"testing"

	"selvedge/internal/serdejson"
)

// reason is what the originals say about text; "" if they read it.
func reason(text string) string {
	s := serdejson.NewScanner([]byte(text))
	if _, ok := s.Value(); ok && s.Peek() != 0 || s.Reason() == "" && !s.AtEnd() {
		s.PeekFail("trailing characters")
	}
	return s.Reason()
}

func TestWhatIsNoJSONIsRefusedInTheWordsOfTheOriginals(t *testing.T) {
	for text, want := range map[string]string{
		``:                        "EOF while parsing a value at line 1 column 0",
		` x`:                      "expected value at line 1 column 2",
		`nul`:                     "EOF while parsing a value at line 1 column 3",
		`nulL`:                    "expected ident at line 1 column 4",
		"{\"a\":1,\n}":            "trailing comma at line 2 column 1",
		`{"a" 1}`:                 "expected `:` at line 1 column 6",
		`[1 2]`:                   "expected `,` or `]` at line 1 column 4",
		`[1,`:                     "EOF while parsing a value at line 1 column 3",
		`{"a":1`:                  "EOF while parsing an object at line 1 column 6",
		`"\ud800"`:                "unexpected end of hex escape at line 1 column 8",
		`"\q"`:                    "invalid escape at line 1 column 3",
		"\"\t\"":                  "control character (\\u0000-\\u001F) found while parsing a string at line 1 column 2",
		`01`:                      "invalid number at line 1 column 2",
		`1e400`:                   "number out of range at line 1 column 5",
		`{} {}`:                   "trailing characters at line 1 column 4",
		strings.Repeat("[", 128):  "recursion limit exceeded at line 1 column 128",
		`{"a":[1,2,{"b":null}]} `: "",
		`-0.5e-3`:                 "",
	} {
		if got := reason(text); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func TestIgnoreLooksAtNothingButTheEnd(t *testing.T) {
	deep := strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000)
	for _, text := range []string{deep, `1e400`, `"\ud800"`, `{"a":[{}, {"b":1e999}]}`} {
		s := serdejson.NewScanner([]byte(text))
		if !s.Ignore() || !s.AtEnd() {
			t.Errorf("%.40q was not ignored: %s", text, s.Reason())
		}
	}
	s := serdejson.NewScanner([]byte(`[1,]`))
	if s.Ignore() {
		t.Error("a torn list was ignored")
	}
}

func TestCanonicalFormsAreWhatTheOriginalsWrite(t *testing.T) {
	for text, want := range map[string]string{
		` { "b" : 1 , "a" : [ ] } `: `{"a":[],"b":1}`,
		`{"a":1,"a":2}`:             `{"a":2}`,
		`"\u0041\/\n\u001f\u2028"`:  "\"A/\\n\\u001f\u2028\"",
		`18446744073709551615`:      `18446744073709551615`,
		`"\ud83d\ude00"`:            `"😀"`,

		`[1E5,1.0,100000000000000000000,-0.0,-0,1e16,1e-6]`: `[100000.0,1.0,1e+20,-0.0,-0.0,1e+16,1e-6]`,
	} {
		if got := string(serdejson.AppendCanonical(nil, []byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
