package dbtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// childVariable names the program that a re-executed test binary is to run.
const childVariable = "SELVEDGE_TEST_PROGRAM"

// A Program is what a child process runs: it reads lines from stdin, answers with lines on stdout,
// and its error ends it with a message and exit code 1.
type Program func(args []string) error

// Main runs the tests, or, in a process that Start made, one of the programs. Call it from TestMain.
func Main(m *testing.M, programs map[string]Program) {
	name := os.Getenv(childVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	program, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no program is called %q\n", name)
		os.Exit(2)
	}
	if err := program(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Process is this test binary, running one of its programs.
type Process struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	notes strings.Builder // stderr
	ended bool
}

// Start runs a program of Main in a process of its own. It is killed when the test ends.
func Start(t testing.TB, program string, args ...string) *Process {
	t.Helper()
	return StartUnder(t, nil, program, args...)
}

// StartUnder is Start through another command, such as unshare(1), which must run the words behind
// its own and end with them.
func StartUnder(t testing.TB, command []string, program string, args ...string) *Process {
	t.Helper()
	words := slices.Concat(command, []string{os.Args[0]}, args)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), childVariable+"="+program)
	return StartCommand(t, cmd)
}

// StartCommand is Start for another program.
func StartCommand(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd}
	p.cmd.Stderr = &p.notes
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.ended {
			p.Kill()
		}
	})
	return p
}

// Line returns the next line that the process wrote, without its end. ok is false once it has
// written its last.
func (p *Process) Line() (line string, ok bool) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err == nil
}

// Expect fails the test unless the next line is want.
func (p *Process) Expect(want string) {
	p.t.Helper()
	if got, ok := p.Line(); !ok || got != want {
		p.t.Fatalf("the process said %q, not %q; stderr: %s", got, want, p.Stderr())
	}
}

// TrySend writes a line to a process that may be dead.
func (p *Process) TrySend(line string) error {
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

// Send writes a line to the process.
func (p *Process) Send(line string) {
	p.t.Helper()
	if err := p.TrySend(line); err != nil {
		p.t.Fatalf("write to the process: %v; stderr: %s", err, p.Stderr())
	}
}

// Signal sends a signal, such as SIGSTOP and SIGCONT.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Kill ends the process with SIGKILL and waits until it is gone. A file knows at once; on a
// server of OnPostgres, Kill also ends the process's time.
func (p *Process) Kill() {
	p.ended = true
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()         // its error is that it was killed
	if onServer != nil && onServer.runs(p.t) {
		onServer.killed(p.t, p.Pid())
	}
}

// Wait closes the process's stdin, waits for its end and fails the test if it failed.
func (p *Process) Wait() {
	p.t.Helper()
	_ = p.in.Close() // Wait reports what matters
	rest, _ := io.ReadAll(p.out)
	p.ended = true
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the process failed: %v; stdout: %s; stderr: %s", err, rest, p.notes.String())
	}
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Stderr ends the process, so that all its output is there, and returns what it wrote to stderr.
func (p *Process) Stderr() string {
	p.Kill()
	return p.notes.String()
}
