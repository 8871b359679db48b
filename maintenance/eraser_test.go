package maintenance

import (
	"regexp"
	"testing"
)

func TestRedact_SecretBesideInvalidTextIsErased(t *testing.T) {
	e := eraser{regexp.MustCompile(`sk-\w+`)}
	for in, want := range map[string]string{
		"{\"a\":\"\xff sk-secret \xc3 stays\",\"b\":1}": "{\"a\":\"\xff ********* \xc3 stays\",\"b\":1}",
		"{\"a\":\"caf\\u00e9 sk-\\u0073ecret-\"}":       "{\"a\":\"caf\\u00e9 *********-\"     }",
		"[\"\u2028sk-secret\\n\\ud83d\\ude00\"]":        "[\"\u2028*********\\n\\ud83d\\ude00\"]",
	} {
		if got, n := e.json("output", []byte(in)); string(got) != want || n != 1 {
			t.Errorf("%q becomes %q, not %q; %d places", in, got, want, n)
		}
	}
}

func TestRedact_GreedyPatternLeavesOneMark(t *testing.T) {
	e := eraser{regexp.MustCompile(`sk-[^"]+`)}
	for in, want := range map[string]string{
		`key=sk-0123456789\u0061bc\u0022 and more`: `key=[redacted]**************************`,
		`{\"key\":\"sk-0123456789abc\"}`:           `{\"key\":\"[redacted]*******"}`,
	} {
		if got, n := e.text([]byte(in)); string(got) != want || n != 1 {
			t.Errorf("%q becomes %q, not %q; %d places", in, got, want, n)
		}
		if again, n := e.text([]byte(want)); string(again) != want || n != 0 {
			t.Errorf("%q becomes %q; %d places", want, again, n)
		}
	}
	// The marks of a run's texts are whole, too.
	if got, _ := (eraser{}).json("output",
		[]byte(`{"text":"as \u0061 whole thing","n":1}`)); string(got) != `{"text":"[redacted]******"     ,"n":0}` {
		t.Errorf("it is %s", got)
	}
}
