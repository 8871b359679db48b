package runs

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/internal/tree"
)

func openLines(t *testing.T, text []byte, step int) *lineReader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r := &lineReader{
		f: f, size: int64(len(text)), step: step,
		decode: func(text []byte) parsedLine {
			switch {
			case len(bytes.TrimSpace(text)) == 0:
				return parsedLine{kind: lineBlank, given: text}
			case text[0] == '!':
				return parsedLine{kind: lineUndecodable, given: text}
			}
			return parsedLine{kind: lineRecord, record: Turn{}, given: text}
		},
	}
	r.rewind()
	return r
}

func TestPieces_AddUpToTheFile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var text []byte
		for range random.IntN(12) {
			text = append(text, strings.Repeat(string("ab! \r"[random.IntN(5)]), random.IntN(40))...)
			if random.IntN(8) > 0 {
				text = append(text, '\n')
			}
		}
		r := openLines(t, text, 1+random.IntN(30))
		var whole []byte
		var lines [][]byte
		for {
			p, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			if int(p.from) != len(whole) {
				t.Fatalf("%q: a piece begins at %d, not at %d", text, p.from, len(whole))
			}
			for _, rec := range p.records {
				if !bytes.HasPrefix(text[rec.offset:], rec.given) {
					t.Fatalf("%q: %q is not at %d", text, rec.given, rec.offset)
				}
				lines = append(lines, rec.given)
			}
			whole = append(whole, p.raw...)
			if sum := sha256.Sum256(whole); !bytes.Equal(sum[:], p.sum) {
				t.Fatalf("%q: wrong hash of the first %d bytes", text, len(whole))
			}
			if !p.last {
				continue
			}
			if p.openLine != (len(p.tail) == 0 && len(text) > 0 && text[len(text)-1] != '\n') {
				t.Fatalf("%q: open line %v", text, p.openLine)
			}
			whole = append(whole, p.tail...)
			break
		}
		if !bytes.Equal(whole, text) {
			t.Fatalf("%q came as %q", text, whole)
		}
		if want := bytes.Count(text, newline); len(lines) != want && len(lines) != want+1 {
			t.Fatalf("%q: %d lines", text, len(lines))
		}
	}
}

func TestImport_TornLastLineIsTail(t *testing.T) {
	for text, tail := range map[string]string{
		"a\n!b": "!b", "a\nb": "", "a\n  ": "  ", "": "", "!": "!",
		"a\n": "",
	} {
		p, err := openLines(t, []byte(text), 100).next()
		if err != nil {
			t.Fatal(err)
		}
		if string(p.tail) != tail {
			t.Errorf("%q has the tail %q", text, p.tail)
		}
	}
}

func TestALineThatIsTooLongEndsTheReading(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(maxLine + 1); err != nil { // a hole: it takes no room
		t.Fatal(err)
	}
	r := &lineReader{f: f, size: maxLine + 1, step: pieceBytes}
	r.rewind()
	if _, err := r.next(); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("the error is %v", err)
	}
}

func TestFileNamesFollowTheOldRules(t *testing.T) {
	for _, c := range []struct{ id, seed, later string }{
		{"plain", "plain", "plain"},
		{"a/b\\c\x00d", "a_b_c_d", "a_b_c_d"},
		{"..x..", "x", "x"},
		{"", "_", "_"},
		{"...", "_", "_"},
		{"name:x", "name:x", "name_x"},
		{" . x . ", " . x . ", "x"},
		{`<>:"|?*`, `<>:"|?*`, "_______"},
		{"a\nb\x7f", "a\nb\x7f", "a_b_"},
		{"a.b", "a.b", "a.b"},
	} {
		if got := seedName(c.id); got != c.seed {
			t.Errorf("the seed's name of %q is %q, not %q", c.id, got, c.seed)
		}
		if got := laterName(c.id); got != c.later {
			t.Errorf("the later name of %q is %q, not %q", c.id, got, c.later)
		}
	}
	if got := tree.Shown("a\xffb\x00é"); got != `a\xFFb\x00é` {
		t.Errorf("an odd name is shown as %q", got)
	}
}
