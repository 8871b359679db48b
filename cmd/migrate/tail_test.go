package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// record is a program that writes to a file while a tail follows it: record FILE VERB ARGUMENT...
func record() {
	if err := recordTo(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func recordTo(ctx context.Context, path, verb string, args []string) (err error) {
	d, err := db.Open(ctx, path, db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	number := func(i int) int {
		n, wrong := strconv.Atoi(args[i])
		err = errors.Join(err, wrong)
		return n
	}
	switch traces := runs.NewStore(d, runs.Options{Retention: &runs.RetentionConfig{}}); verb {
	case "start": // AGENT RUN
		return traces.WriteStarted(ctx, runs.Started{AgentID: args[0], RunID: args[1], Intent: "be followed"})
	case "turns": // AGENT RUN FROM TO: each in a commit of its own
		for i := number(2); err == nil && i <= number(3); i++ {
			err = traces.AppendTurns(ctx, args[0], args[1], []runs.Turn{{Index: uint64(i)}})
		}
		return err
	case "end": // AGENT RUN
		outcome := &runs.AgentOutcome{Status: runs.OutcomeSuccess}
		return traces.WriteEnded(ctx, runs.Ended{
			AgentID: args[0], RunID: args[1],
			Termination: runs.Termination{Outcome: outcome},
		})
	case "reserve": // SCOPE KIND NAME: for an hour, whatever becomes of this process
		o := db.ReserveOptions{Scope: args[0], LeaseTerms: db.LeaseTerms{TTL: time.Hour, Detached: true}}
		_, err = d.Reserve(ctx, args[1], args[2], o)
		return err
	case "collect": // every ended run
		_, err = traces.GC(ctx)
		return err
	case "live": // RUN FROM TO KEPT: makes the run with event 0
		store := live.NewStore(d, live.Options{MaxEventsPerRun: new(uint64(number(3)))})
		for i := number(1); err == nil && i <= number(2); i++ {
			if i == 0 {
				_, err = store.CreateRunWithID(ctx, args[0], "session", "be followed")
			}
			if err == nil {
				event, wrong := live.NewEvent(fmt.Appendf(nil, "{\"type\":\"step\",\n \"n\":%d}", i))
				_, _, err = store.RecordEvent(ctx, args[0], event)
				err = errors.Join(err, wrong)
			}
		}
		return err
	case "worker", "prune": // RUNTIME INPUTS: to a new worker; RUNTIME BEFORE
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: workers.RuntimeID(args[0])})
		if err != nil {
			return err
		}
		if verb == "prune" {
			_, err = r.PruneEvents(ctx, workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: uint64(number(1))})
			return err
		}
		w, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{
			Intent: workers.WorkerIntent{Kind: "task", Objective: "be followed"},
		})
		for range number(1) {
			if err == nil {
				_, err = r.SendInput(ctx, w.WorkerRef, workers.UserInput("x"))
			}
		}
		return err
	}
	return fmt.Errorf("no verb is called %s", verb)
}

// A following is a program that a script started with follow.
type following struct {
	command *exec.Cmd
	lines   chan string // what it writes; closed at its end
	stderr  strings.Builder
	last    string // the line that was read last
}

// followings are those of one script.
type followings map[string]*following

func (all followings) commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"follow": all.follow, "lines": all.expectLines, "matches": all.matches, "until": all.until,
		"cursor": all.cursor, "stops": all.stops,
	}
}

func (all followings) named(ts *testscript.TestScript, neg bool, args []string, atLeast int,
	use string,
) *following {
	if neg || len(args) < atLeast {
		ts.Fatalf("use: %s", use)
	}
	f, ok := all[args[0]]
	if !ok {
		ts.Fatalf("nothing is followed as %s", args[0])
	}
	return f
}

// follow NAME COMMAND... starts a program whose lines the other commands read.
func (all followings) follow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("use: follow NAME COMMAND...")
	}
	f := &following{command: exec.Command(args[1], args[2:]...), lines: make(chan string, 1<<16)}
	f.command.Dir = ts.MkAbs(".")
	f.command.Env = append(os.Environ(), "SELVEDGE_DB="+ts.Getenv("SELVEDGE_DB"),
		scriptServer+"="+ts.Getenv(scriptServer))
	f.command.Stderr = &f.stderr
	out, err := f.command.StdoutPipe()
	ts.Check(err)
	ts.Check(f.command.Start())
	ts.Defer(func() {
		_ = f.command.Process.Kill() // it may have ended
		_ = f.command.Wait()
	})
	go func() {
		defer close(f.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				f.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	all[args[0]] = f
}

// next waits for a line.
func (f *following) next(ts *testscript.TestScript) string {
	select {
	case line, ok := <-f.lines:
		if !ok {
			ts.Fatalf("it ended; stderr: %s", f.stderr.String())
		}
		if !strings.HasSuffix(line, "\n") {
			ts.Fatalf("half a line came: %q", line)
		}
		f.last = line
		return line
	case <-time.After(30 * time.Second):
		ts.Fatalf("no line came behind %q", f.last)
	}
	return ""
}

// part is a member of the line that was read last: as it is where path is "line".
func (f *following) part(ts *testscript.TestScript, path string) string {
	if path == "line" {
		return strings.TrimSuffix(f.last, "\n")
	}
	d := json.NewDecoder(strings.NewReader(f.last))
	d.UseNumber()
	var value any
	ts.Check(d.Decode(&value))
	return textOf(ts, at(ts, value, path))
}

// lines NAME PATH VALUE... reads as many lines as there are values; 3..5 is three of them.
func (all followings) expectLines(ts *testscript.TestScript, neg bool, args []string) {
	f := all.named(ts, neg, args, 3, "lines NAME PATH VALUE...")
	var want []string
	span := regexp.MustCompile(`^(\d+)\.\.(\d+)$`)
	for _, value := range args[2:] {
		ends := span.FindStringSubmatch(value)
		if ends == nil {
			want = append(want, value)
			continue
		}
		first, _ := strconv.Atoi(ends[1])
		last, _ := strconv.Atoi(ends[2])
		for i := first; i <= last; i++ {
			want = append(want, strconv.Itoa(i))
		}
	}
	for i := range want {
		f.next(ts)
		if got := f.part(ts, args[1]); got != want[i] {
			ts.Fatalf("line %d of these has %q, not %q", i+1, got, want[i])
		}
	}
}

// matches NAME PATTERN reads a line.
func (all followings) matches(ts *testscript.TestScript, neg bool, args []string) {
	f := all.named(ts, neg, args, 2, "matches NAME PATTERN")
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	if f.next(ts); !pattern.MatchString(f.part(ts, "line")) {
		ts.Fatalf("%q came", f.last)
	}
}

// until NAME PATH VALUE COUNTER reads lines until one has the value; COUNTER grows by one from each
// line to the next.
func (all followings) until(ts *testscript.TestScript, neg bool, args []string) {
	f := all.named(ts, neg, args, 4, "until NAME PATH VALUE COUNTER")
	for {
		before, _ := strconv.Atoi(f.part(ts, args[3]))
		f.next(ts)
		if now := f.part(ts, args[3]); now != strconv.Itoa(before+1) {
			ts.Fatalf("%s came behind %d", now, before)
		}
		if f.part(ts, args[1]) == args[2] {
			return
		}
	}
}

// cursor NAME VARIABLE keeps the cursor of the line that was read last.
func (all followings) cursor(ts *testscript.TestScript, neg bool, args []string) {
	f := all.named(ts, neg, args, 2, "cursor NAME VARIABLE")
	ts.Setenv(args[1], f.part(ts, "cursor"))
}

// stops NAME SIGNAL CODE sends a signal, unless it is "-", and waits for the end; the errors are in
// the file NAME.stderr. What it has written and nobody has read must be whole lines, and its hint,
// where it has a cursor, goes on behind the last.
func (all followings) stops(ts *testscript.TestScript, neg bool, args []string) {
	f := all.named(ts, neg, args, 3, "stops NAME SIGNAL CODE")
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	if args[1] != "-" {
		ts.Check(f.command.Process.Signal(signals[args[1]]))
	}
	for line := range f.lines {
		if !strings.HasSuffix(line, "\n") {
			ts.Fatalf("it ended with half a line: %q", line)
		}
		f.last = line
	}
	_ = f.command.Wait() // the exit code is what counts
	if got := strconv.Itoa(f.command.ProcessState.ExitCode()); got != args[2] {
		ts.Fatalf("exit code %s, want %s; stderr: %s", got, args[2], f.stderr.String())
	}
	if _, hint, ok := strings.Cut(f.stderr.String(), " --from "); ok && strings.HasPrefix(f.last, "{") {
		if want := f.part(ts, "cursor"); !strings.HasPrefix(hint, want+`"`) {
			ts.Fatalf("the last cursor is %s, and the hint ends with %s", want, hint)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".stderr"), []byte(f.stderr.String()), 0o600))
	delete(all, args[0])
}

// someLines are the first lines of a tail.
func someLines(t *testing.T, n int, args ...string) (lines []string) {
	t.Helper()
	command := exec.Command("migrate", args...)
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewScanner(out); len(lines) < n && r.Scan(); {
		lines = append(lines, r.Text())
	}
	_ = command.Process.Kill()
	_ = command.Wait() // says that it was killed
	return lines
}

func TestSignal_HangupStaysIgnoredWithNohup(t *testing.T) {
	path := dbtest.Path(t)
	if err := recordTo(t.Context(), path, "start", []string{"a", "r"}); err != nil {
		t.Fatal(err)
	}
	p := dbtest.StartCommand(t, exec.Command("sh", "-c", `trap '' HUP; exec migrate "$@"`, "sh",
		"--db", path, "runs", "tail", "r", "--json"))
	p.Line() // its signals are set
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		p.Signal(s)
	}
	for ok := true; ok; {
		_, ok = p.Line()
	}
	p.Kill()
	if !strings.Contains(p.Stderr(), "terminated") {
		t.Error(p.Stderr())
	}
}
