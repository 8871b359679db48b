package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// grace is how long an interrupted command may take to end by itself. After that the program exits
// without it, which loses nothing: what was acknowledged is committed, and SQLite undoes the rest.
// A query inside SQLite, or an integrity check, can't be interrupted.
const grace = time.Second

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the program; it returns the exit code. A second signal ends the process at once. SIGHUP stays
// ignored if the program was started so, as with nohup.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	go func() {
		s := <-signals
		signal.Stop(signals)
		stop(fmt.Errorf("%w by signal: %s", errInterrupted, s))
	}()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, stop: stop, screen: screenOf(stdout)}
	err := a.execute(ctx, args)
	for _, note := range a.afterwards {
		a.note("%s", note)
	}
	return a.report(err)
}

// execute runs the command of args until it ends, or until it was interrupted and its grace is
// over.
func (a *app) execute(ctx context.Context, args []string) error {
	root := newRootCommand(a)
	a.args = args
	root.SetArgs(commandFirst(root, args))
	a.json = wantsJSON(args) // until the flags are parsed, and if they can't be
	done := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		done <- cmp.Or(a.failed, err)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(grace):
			return context.Cause(ctx)
		}
	}
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil || errors.Is(err, cause):
		return err
	case errors.Is(err, context.Canceled):
		return cause
	default:
		return fmt.Errorf("%w (%w)", cause, err)
	}
}
