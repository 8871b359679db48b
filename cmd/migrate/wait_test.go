package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"selvedge/test/dbtest"
)

// holding starts a program that says so on its first line when it holds what it is to hold.
func holding(t *testing.T, stdin string, words ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(words[0], words[1:]...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() }) //nolint:errcheck // the process is killed
	if _, err := in.Write([]byte(stdin)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return c
}

// A stoppedWriter has its turn to write, and is stopped.
func stoppedWriter(t *testing.T, path string) int {
	c := holding(t, "", "flock", "-F", path+"-queue", "sh", "-c", "echo $$; exec sleep 1000")
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

// A foreignWriter is a program that knows nothing of turns.
func foreignWriter(t *testing.T, path string) int {
	return holding(t, "BEGIN IMMEDIATE;\nSELECT 'begun';\n", "sqlite3", path).Process.Pid
}

func TestWait_BoundsWriterWaitAndNamesIt(t *testing.T) {
	for name, hold := range map[string]func(*testing.T, string) int{
		"stopped": stoppedWriter,
		"foreign": foreignWriter,
	} {
		t.Run(name, func(t *testing.T) {
			path := checkpointsFile(t)
			pid := hold(t, path)
			exit, _, stderr := call(t, "--db", path, "--wait", "2s", "--json", "checkpoints", "recover",
				"--imported")
			if exit != kindBusy.exit || !strings.Contains(stderr, `"kind":"busy"`) ||
				!strings.Contains(stderr, fmt.Sprintf("process %d", pid)) {
				t.Errorf("exit %d, %s; want 5 and process %d", exit, stderr, pid)
			}
		})
	}
}

func TestWait_UnsetWaitsAndNamesHolder(t *testing.T) {
	program, err := exec.LookPath("migrate")
	if err != nil {
		t.Fatal(err)
	}
	path := checkpointsFile(t)
	writer := stoppedWriter(t, path)
	turn := waits(t, program, path, writer, "checkpoints", "recover", "--imported")
	other := dbtest.Path(t)
	if exit, _, stderr := call(t, "--db", other, "up"); exit != 0 {
		t.Fatal(stderr)
	}
	locker := holding(t, "", "flock", "-F", other+"-lock", "sh", "-c", "echo held; exec sleep 1000").Process.Pid
	file := waits(t, program, other, locker, "status")
	turn()
	file()
}

// waits starts a command that waits for a process, and gives what judges it.
func waits(t *testing.T, program, path string, pid int, words ...string) (judge func()) {
	t.Helper()
	c := exec.Command(program, append([]string{"--db", path}, words...)...)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return func() { t.Helper(); judgeWait(t, c, stderr, pid, began) }
}

func judgeWait(t *testing.T, c *exec.Cmd, stderr io.Reader, pid int, began time.Time) {
	t.Helper()
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), fmt.Sprintf("waiting for process %d,", pid)) ||
		time.Since(began) < noteAfter {
		t.Errorf("it says %q after %v", lines.Text(), time.Since(began))
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		continue
	}
	c.Wait() //nolint:errcheck // the exit code is checked
	if c.ProcessState.ExitCode() != kindInterrupted.exit {
		t.Errorf("exit %d", c.ProcessState.ExitCode())
	}
}
