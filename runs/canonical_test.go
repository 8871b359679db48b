package runs

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// Ran: serde_json 1.0.154 with float_roundtrip, through car-proto 0.27.0.
func TestCanonicalIsWhatTheOriginalWrites(t *testing.T) {
	for raw, want := range map[string]string{
		"":                               "null",
		" null ":                         "null",
		" [ 1 , \"a\" , { } ] ":          `[1,"a",{}]`,
		`{"b":1,"a":2,"b":3}`:            `{"a":2,"b":3}`,
		`{"\u0062":1,"a":{"d":1,"c":2}}`: `{"a":{"c":2,"d":1},"b":1}`,
		`{"é":1,"z":2,"":3,"Z":4}`:       `{"":3,"Z":4,"z":2,"é":1}`,
		`"\u003c\/\u00e9\ud83d\ude00\u0001\u007f\b\"\\"`: "\"</é😀\\u0001\x7f\\b\\\"\\\\\"",
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
		"0.0":                    "0.0",
		"18446744073709551615":   "18446744073709551615",
		"18446744073709551616":   "1.8446744073709552e+19",
		"-9223372036854775808":   "-9223372036854775808",
		"-9223372036854775809":   "-9.223372036854776e+18",
		"1e-400":                 "0.0",
	} {
		got, err := Canonical([]byte(raw))
		if err != nil || string(got) != want {
			t.Errorf("%s gave %s, %v; want %s", raw, got, err, want)
		}
	}
	for _, raw := range []string{"1e400", "01", "1.", "{", `"\ud800"`, "NaN", "\"\xff\"", "[1,]", "{}x", "\x00", "nulL"} {
		if got, err := Canonical([]byte(raw)); err == nil {
			t.Errorf("%q gave %s", raw, got)
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
		written := appendFloat([]byte{'x'}, f)
		if got, err := strconv.ParseFloat(string(written[1:]), 64); err != nil || got != f {
			t.Fatalf("%v is written as %s", f, written)
		}
	}
}
