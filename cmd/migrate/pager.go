package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// paged runs write. On a terminal, output that does not fit goes through a pager: PAGER, or less.
func (a *app) paged(write func()) {
	terminal, ok := a.stdout.(*os.File)
	words := pagerWords()
	if !ok || !a.screen.terminal || a.json || a.screen.height == 0 || len(words) == 0 {
		write()
		return
	}
	p := &pager{terminal: terminal, words: words, lines: a.screen.height - 1, width: max(1, a.screen.width)}
	a.stdout = p
	write()
	a.stdout = terminal
	a.failed = cmp.Or(a.failed, p.Close())
	if errors.Is(a.failed, syscall.EPIPE) { // the user has left the pager
		a.failed = nil
	}
}

// pagerWords returns the command of the pager: none if PAGER is empty or cat, or if there is no
// such program.
func pagerWords() []string {
	words := []string{"less", "-FRX"}
	if chosen, ok := os.LookupEnv("PAGER"); ok {
		words = strings.Fields(chosen)
	}
	if len(words) == 0 || words[0] == "cat" {
		return nil
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return nil
	}
	return words
}

// A pager buffers output while it fits on the screen. Once it does not, it starts the program.
type pager struct {
	terminal *os.File
	words    []string
	lines    int // that fit on the screen
	width    int
	kept     []byte
	command  *exec.Cmd
	in       io.WriteCloser
}

func (p *pager) Write(text []byte) (int, error) {
	if p.in != nil {
		return p.in.Write(text)
	}
	p.kept = append(p.kept, text...)
	rows := 0
	for line := range strings.Lines(string(p.kept)) {
		rows += 1 + (len(line)-1)/p.width
	}
	if rows <= p.lines {
		return len(text), nil
	}
	if err := p.start(); err != nil {
		return 0, err
	}
	_, err := p.in.Write(p.kept)
	p.kept = nil
	return len(text), err
}

func (p *pager) start() (err error) {
	p.command = exec.Command(p.words[0], p.words[1:]...)
	p.command.Stdout, p.command.Stderr = p.terminal, os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		return err
	}
	signal.Ignore(os.Interrupt) // a key of the pager
	return p.command.Start()
}

// Close waits until the user leaves the pager.
func (p *pager) Close() error {
	if p.in == nil {
		_, err := p.terminal.Write(p.kept)
		return err
	}
	err := p.in.Close()
	if waited := p.command.Wait(); err == nil {
		if _, left := errors.AsType[*exec.ExitError](waited); !left {
			err = waited
		}
	}
	return err
}
