package runs

import "testing"

func TestCanonicalIsWhatTheOriginalWrites(t *testing.T) {
	for raw, want := range map[string]string{
		"":                               "null",
		" null ":                         "null",
		" [ 1 , \"a\" , { } ] ":          `[1,"a",{}]`,
		`{"b":1,"a":2,"b":3}`:            `{"a":2,"b":3}`,
		`{"\u0062":1.10,"a":{"d":1E3 }}`: `{"a":{"d":1000.0},"b":1.1}`,
	} {
		got, err := canonical([]byte(raw))
		if err != nil || string(got) != want {
			t.Errorf("%s gave %s, %v; want %s", raw, got, err, want)
		}
	}
	for _, raw := range []string{
		"1e400", "01", "1.", "{", `"\ud800"`, "NaN", "\"\xff\"", "[1,]", "{}x", "\x00",
		"nulL",
	} {
		if got, err := canonical([]byte(raw)); err == nil {
			t.Errorf("%q gave %s", raw, got)
		}
	}
}
