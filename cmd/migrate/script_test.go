package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"selvedge/test/dbtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, programs)
}

// scriptServer names the environment variable with the address of the database in which the files
// of a script are schemas.
const scriptServer = "SELVEDGE_SCRIPT_SERVER"

// onServers are commands of scripts that are played on a server.
var onServers = map[string]func(*testscript.TestScript, bool, []string){}

// programs are those that scripts call.
var programs = map[string]func(){"migrate": main, "record": record}

// TestScripts plays testdata/script: one file a command. A file that a script leaves under a name
// in .db is checked; one that the script spoils on purpose has another name.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			play(t, script, "")
		})
	}
}

// play plays one script. With the address of a server each file in it is a schema there, and the
// condition server holds.
func play(t *testing.T, script, server string) {
	t.Helper()
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"exits":  exits,
		"field":  field,
		"keep":   keep,
		"keys":   keys,
		"sql":    runSQL,
		"spoil":  spoil,
		"unpack": unpack,
		"lock":   lockFile,
	}
	maps.Copy(commands, followings{}.commands())
	maps.Copy(commands, onServers)
	testscript.Run(t, testscript.Params{
		Files:               []string{script},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv(scriptServer, server)
			return setUp(t, env)
		},
		Condition: func(cond string) (bool, error) {
			if cond != "server" {
				return false, fmt.Errorf("no condition is called %s", cond)
			}
			return server != "", nil
		},
		Cmds: commands,
	})
}

func setUp(t *testing.T, env *testscript.Env) error {
	module, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Setenv("MODULE", module)
	env.Setenv("NO_COLOR", "")
	env.Setenv("LONG", strings.Repeat("x", 1025))
	env.Defer(func() {
		err := filepath.WalkDir(env.WorkDir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && strings.HasSuffix(path, ".db") {
				dbtest.Check(t, path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	return nil
}

// exits CODE COMMAND... runs a command that must end with this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("use: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	pasteHints(ts)
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// pasteHints holds the hints of the command before to what a hint is: its command line, if it has
// one, stands at the end of a line, names the file in use, and is one that the program takes.
func pasteHints(ts *testscript.TestScript) {
	stderr := ts.ReadFile("stderr")
	var failed errorAnswer
	if json.Unmarshal([]byte(stderr), &failed) == nil {
		stderr = "hint: " + failed.Error.Hint
	}
	_, hint, _ := strings.Cut("\n"+stderr, "\nhint: ")
	for line := range strings.Lines(hint) {
		at := strings.Index(line, "migrate ")
		if at < 0 {
			continue
		}
		out, err := exec.Command("sh", "-c", "printf '%s\\0' "+line[at:]).Output()
		ts.Check(err)
		words := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")[1:]
		root := newRootCommand(&app{})
		c, rest, err := root.Find(commandFirst(root, words))
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if errors.Is(err, pflag.ErrHelp) {
			continue
		}
		if err == nil {
			err = c.ValidateArgs(c.Flags().Args())
		}
		placeholder := func(word string) bool {
			return slices.Contains([]string{"FILE", "DIR", "ID", "KIND", "N", "CURSOR", "NAME"}, word)
		}
		if err != nil || slices.ContainsFunc(words, placeholder) {
			ts.Fatalf("nobody can paste the hint %q: %v", line, err)
		}
	}
}

// field FILE PATH VALUE looks into the one JSON value of a file (or stdout, stderr):
// items.0.run_id. A VALUE is compared as text for strings and as JSON else; a path that ends in len
// is the number of elements.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("use: field FILE PATH VALUE")
	}
	got := textOf(ts, at(ts, oneJSON(ts, args[0]), args[1]))
	if same := got == args[2]; same == neg {
		ts.Fatalf("%s of %s is %s", args[1], args[0], got)
	}
}

// keep FILE PATH NAME gives an environment variable what a field holds.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("use: keep FILE PATH NAME")
	}
	ts.Setenv(args[2], textOf(ts, at(ts, oneJSON(ts, args[0]), args[1])))
}

// keys FILE PATH NAME... compares the member names of an object.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("use: keys FILE PATH NAME...")
	}
	object, ok := at(ts, oneJSON(ts, args[0]), args[1]).(map[string]any)
	if !ok {
		ts.Fatalf("%s of %s is no object", args[1], args[0])
	}
	var got []string
	for name := range object {
		got = append(got, name)
	}
	want := slices.Clone(args[2:])
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		ts.Fatalf("%s of %s has %v, want %v", args[1], args[0], got, want)
	}
}

func oneJSON(ts *testscript.TestScript, file string) any {
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	d.UseNumber()
	var value any
	ts.Check(d.Decode(&value))
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		ts.Fatalf("%s holds more than one JSON value", file)
	}
	return value
}

func at(ts *testscript.TestScript, value any, path string) any {
	if path == "." {
		return value
	}
	for name := range strings.SplitSeq(path, ".") {
		list, isList := value.([]any)
		object, isObject := value.(map[string]any)
		i, err := strconv.Atoi(name)
		switch {
		case name == "len" && isList:
			value = json.Number(strconv.Itoa(len(list)))
		case isList && err == nil && i < len(list):
			value = list[i]
		case isObject:
			if _, ok := object[name]; !ok {
				ts.Fatalf("%s: there is no %q", path, name)
			}
			value = object[name]
		default:
			ts.Fatalf("%s: there is no %q", path, name)
		}
	}
	return value
}

func textOf(ts *testscript.TestScript, value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	text, err := encodeJSON(value)
	ts.Check(err)
	return string(bytes.TrimSuffix(text, []byte("\n")))
}

// sql FILE STATEMENT runs SQL as another program would.
func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("use: sql FILE STATEMENT")
	}
	d, err := sql.Open("sqlite", "file:"+ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = d.Exec(args[1])
	ts.Check(errors.Join(err, d.Close()))
}

// spoil FILE overwrites the second half of a file with letters.
func spoil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("use: spoil FILE")
	}
	path := ts.MkAbs(args[0])
	content, err := os.ReadFile(path)
	ts.Check(err)
	half := len(content) / 2
	copy(content[half:], bytes.Repeat([]byte("spoiled "), len(content)/8))
	ts.Check(os.WriteFile(path, content, 0o600))
}

// unpack TREE DIR unpacks testdata/legacy/TREE.tar.gz of the module, as in runs/small.
func unpack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("use: unpack TREE DIR")
	}
	packed := filepath.Join(ts.Getenv("MODULE"), "testdata", "legacy", filepath.FromSlash(args[0])+".tar.gz")
	dir := ts.MkAbs(args[1])
	ts.Check(os.MkdirAll(dir, 0o700))
	if out, err := exec.Command("tar", "-xzf", packed, "-C", dir).CombinedOutput(); err != nil {
		ts.Fatalf("tar: %v\n%s", err, out)
	}
}

// lock FILE holds a file's lock for the rest of the script.
func lockFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("use: lock FILE")
	}
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR|os.O_CREATE, 0o600)
	ts.Check(err)
	ts.Check(syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	ts.Defer(func() { file.Close() })
}
