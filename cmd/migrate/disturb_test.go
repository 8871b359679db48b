package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

// What an import has named is no damage: the program's own check of a file finds nothing, whatever
// tree was imported.
func TestCheck_EveryImportedTreeIsWhole(t *testing.T) {
	whole := func(t *testing.T, kind legacy.Kind, dir string) {
		t.Helper()
		d := dbtest.Open(t, db.Options{})
		if _, err := legacy.Import(t.Context(), d, kind, dir, legacy.Options{}); err != nil {
			if errors.Is(err, db.ErrNotFound) {
				return // it is no tree any more
			}
			t.Fatal(err)
		}
		if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
			t.Errorf("%v, %v", x.Problems, err)
		}
	}
	for _, kind := range legacy.Kinds() {
		replay.EachTree(t, string(kind), func(t *testing.T, tree replay.Tree) {
			dir := t.TempDir()
			if err := tree.Unpack(dir); err != nil {
				t.Fatal(err)
			}
			whole(t, kind, dir)
		})
		for seed := range uint64(8) {
			dir := treeOf(t, kind, []string{"small", "awkward"}[seed%2])
			changes := disturb(t, rand.New(rand.NewPCG(seed, 0)), dir)
			if whole(t, kind, dir); t.Failed() {
				t.Fatalf("%s, changed so:\n%s", kind, strings.Join(changes, "\n"))
			}
		}
	}
	dir := t.TempDir()
	const document = `{"run_id":"x","workflow":{"id":"wf","name":"WF","start":"gate","stages":[],"edges":[],"max_iterations":100,"metadata":{}},` +
		`"paused_stage_id":"gate","prompt":"approve?","fields":[],"output_key":"approval","wf_state":{},"stage_results":[],` +
		`"completed_stage_ids":[],"iterations":1,"prior_duration_ms":0.0,"created_at":"2026-03-02T01:07:13Z"}`
	for name, text := range map[string]string{
		"x.inflight": document, "x.json": "", "y.json": document,
		"y.inflight": "{", "z.inflight": "{",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole(t, legacy.Checkpoints, dir)
}

// treeOf unpacks a recorded tree and gives its folder.
func treeOf(t *testing.T, kind legacy.Kind, name string) string {
	t.Helper()
	trees, err := replay.Trees(string(kind))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(trees, func(tree replay.Tree) bool { return filepath.Base(tree.Name) == name })
	dir := t.TempDir()
	if err := trees[at].Unpack(dir); err != nil {
		t.Fatal(err)
	}
	found, err := legacy.Recognise(dir, legacy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Kind == kind {
			return f.Dir
		}
	}
	return dir
}

// What a text, a number and any value may be of which two engines might think differently.
var (
	oddTexts = []string{
		``, ` `, `\u0000`, `a\u0000b`, "a\x00b", `\ud800`, `\udc00x`, `\ud83d\ude00`, "\xff\xfe", "a\xc3",
		"\xed\xa0\x80", "\U0010FFFF", "\U0010FFFF0", "\U0010FFFF\U0010FFFFxff",
		`\\`, `\"`, `\r\n`, "a\rb", `\/`, `'`, `''`, `%`, `_`, `$1`, `?`, `:x`, `::text`, `--`, `e\u0301`, `é`,
		`É`, `Zebra`, `apple`, `_apple`, `ß`, "\ufeff", "\u2028", "İ", "ﬀ",
		`\x41`, `NULL`, `null`, `true`, `0`, `1e3`, `-1`, `2026-05-04T01:02:03Z`,
		`2026-05-04T01:02:03.123456789+05:30`, `0000-01-01T00:00:00Z`, `9999-12-31T23:59:59.999999999Z`,
		`-infinity`, `now`,
		strings.Repeat("x", 3000), strings.Repeat("aé😀", 4000), "../x", "a/b", ".", "CON",
	}
	oddNumbers = []string{
		`0`, `-0`, `-0.0`, `1.0`, `-1`, `0.1`, `1e2`, `1E+2`, `1.5e-7`, `1e300`, `-1e300`, `1e400`, `1e-400`,
		`2147483648`, `9007199254740993`, `9223372036854775807`, `9223372036854775808`,
		`-9223372036854775808`, `-9223372036854775809`, `18446744073709551616`, `123456789012345678901234567890`,
		`0.30000000000000004`, `253402300800000`, `01`, `NaN`,
	}
	oddValues = []string{
		`null`, `true`, `false`, `[]`, `{}`, `[1,"a"]`, `{"a":1,"a":2}`, `""`, `0`, `"1"`,
		`1e300`,
	}
)

var (
	jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	jsonNumber = regexp.MustCompile(`[:\[,] *-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?`)
	jsonMember = regexp.MustCompile(`"(?:[^"\\]|\\.)*" *: *(?:"(?:[^"\\]|\\.)*"|` +
		`-?[0-9][-+.0-9eE]*|true|false|null)`)
	identifier = regexp.MustCompile(`[A-Za-z0-9][-A-Za-z0-9_.]{3,60}`)
)

// disturb changes some of the files of a tree, and says how.
func disturb(t *testing.T, random *rand.Rand, dir string) (changes []string) {
	t.Helper()
	var files []string
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for range 1 + random.IntN(2*len(files)+4) {
		path := files[random.IntN(len(files))]
		text, err := os.ReadFile(path)
		if err != nil {
			continue // one that nobody may read, or that has another name now
		}
		how := ways[random.IntN(len(ways))]
		changed := how.change(random, bytes.Clone(text))
		if bytes.Equal(changed, text) {
			continue
		}
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			continue // one that nobody may write
		}
		changes = append(changes, fmt.Sprintf("%s: %s", strings.TrimPrefix(path, dir), how.name))
	}
	for range random.IntN(3) {
		if change := rename(random, dir, files); change != "" {
			changes = append(changes, change)
		}
	}
	return changes
}

// ways are how a file may be changed.
var ways = []struct {
	name   string
	change func(*rand.Rand, []byte) []byte
}{
	{"another text", func(r *rand.Rand, text []byte) []byte {
		return replaceOne(r, text, jsonString, `"`+one(r, oddTexts)+`"`)
	}},
	{"more texts", func(r *rand.Rand, text []byte) []byte {
		for range 8 {
			text = replaceOne(r, text, jsonString, `"`+one(r, oddTexts)+`"`)
		}
		return text
	}},
	{"another number", func(r *rand.Rand, text []byte) []byte {
		at := jsonNumber.FindAllIndex(text, -1)
		if len(at) == 0 {
			return text
		}
		place := at[r.IntN(len(at))]
		return slices.Concat(text[:place[0]+1], []byte(one(r, oddNumbers)), text[place[1]:])
	}},
	{"another value", func(r *rand.Rand, text []byte) []byte {
		at := jsonMember.FindAllIndex(text, -1)
		if len(at) == 0 {
			return text
		}
		place := at[r.IntN(len(at))]
		name := jsonString.Find(text[place[0]:place[1]])
		return slices.Concat(text[:place[0]], name, []byte(":"+one(r, oddValues)), text[place[1]:])
	}},
	{"a member twice", func(r *rand.Rand, text []byte) []byte {
		at := jsonMember.FindAllIndex(text, -1)
		if len(at) == 0 {
			return text
		}
		place := at[r.IntN(len(at))]
		name := jsonString.Find(text[place[0]:place[1]])
		return slices.Concat(text[:place[1]], []byte(","), name, []byte(":"+one(r, oddValues)), text[place[1]:])
	}},
	{"a member more", func(r *rand.Rand, text []byte) []byte {
		return bytes.Replace(text, []byte("{"), fmt.Appendf(nil, `{"%s":%s,`, one(r, oddTexts), one(r, oddValues)),
			1)
	}},
	{"CRLF", func(_ *rand.Rand, text []byte) []byte {
		return bytes.ReplaceAll(text, []byte("\n"),
			[]byte("\r\n"))
	}},
	{"a mark of the byte order", func(_ *rand.Rand,
		text []byte,
	) []byte {
		return append([]byte("\ufeff"), text...)
	}},
	{"nothing", func(*rand.Rand, []byte) []byte { return []byte{} }},
	{"cut", func(r *rand.Rand, text []byte) []byte { return text[:r.IntN(len(text)+1)] }},
	{"a byte more", func(r *rand.Rand, text []byte) []byte {
		at := r.IntN(len(text) + 1)
		return slices.Concat(text[:at], []byte{"\x00\xff\n \"}\x80\r"[r.IntN(8)]}, text[at:])
	}},
	{"lines in another order", func(r *rand.Rand, text []byte) []byte {
		lines := bytes.SplitAfter(text, []byte("\n"))
		r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		return bytes.Join(lines, nil)
	}},
	{"a line twice", func(r *rand.Rand, text []byte) []byte {
		lines := bytes.SplitAfter(text, []byte("\n"))
		at := r.IntN(len(lines))
		return bytes.Join(slices.Insert(lines, at, lines[r.IntN(len(lines))]), nil)
	}},
	{"a line less", func(r *rand.Rand, text []byte) []byte {
		lines := bytes.SplitAfter(text, []byte("\n"))
		at := r.IntN(len(lines))
		return bytes.Join(slices.Delete(lines, at, at+1), nil)
	}},
	{"an identifier everywhere", func(r *rand.Rand, text []byte) []byte {
		found := identifier.FindAll(text, -1)
		if len(found) == 0 {
			return text
		}
		return bytes.ReplaceAll(text, bytes.Clone(found[r.IntN(len(found))]), []byte(one(r, oddTexts)))
	}},
}

func one(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

func replaceOne(r *rand.Rand, text []byte, what *regexp.Regexp, with string) []byte {
	at := what.FindAllIndex(text, -1)
	if len(at) == 0 {
		return text
	}
	place := at[r.IntN(len(at))]
	return slices.Concat(text[:place[0]], []byte(with), text[place[1]:])
}

// rename gives a file or the folder that it is in a name of the same ending that sorts otherwise,
// or is none of a thing, and has all files that name it name it so.
func rename(r *rand.Rand, dir string, files []string) string {
	path := files[r.IntN(len(files))]
	if parent := filepath.Dir(path); r.IntN(3) == 0 && parent != dir {
		path = parent
	}
	name := filepath.Base(path)
	ending := filepath.Ext(name)
	was := strings.TrimSuffix(name, ending)
	is := one(r, []string{
		"Zebra", "apple", "_apple", "é", "e\u0301", "İ", "a b", "%41", "a'b", "a\"b",
		"\U0010FFFF0", "\xff", "\u2028", was + "~", strings.ToUpper(was), strings.Repeat("é", 100), "$1", "-",
		"0",
	})
	to := filepath.Join(filepath.Dir(path), is+ending)
	if _, err := os.Lstat(to); err == nil || os.Rename(path, to) != nil {
		return ""
	}
	if len(was) > 3 && r.IntN(2) == 0 {
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				_ = os.WriteFile(file, bytes.ReplaceAll(text, []byte(`"`+was+`"`), []byte(strconv.Quote(is))), 0o600)
			}
		}
	}
	return fmt.Sprintf("%s is %q now", strings.TrimPrefix(path, dir), is+ending)
}
