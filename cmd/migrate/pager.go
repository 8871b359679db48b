package main

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

// paged runs write. On a terminal, output that does not fit goes through a pager: PAGER, or less.
func (a *app) paged(write func()) {
	terminal, ok := a.stdout.(*os.File)
	words := pagerWords()
	if !ok || !a.screen.terminal || a.json || a.screen.height == 0 || len(words) == 0 {
		write()
		return
	}
	var text bytes.Buffer
	a.stdout = &text
	write()
	a.stdout = terminal
	rows := 0
	for line := range strings.Lines(text.String()) {
		rows += 1 + (len(line)-1)/max(1, a.screen.width)
	}
	var err error
	if rows < a.screen.height {
		_, err = terminal.Write(text.Bytes())
	} else {
		err = throughPager(words, &text, terminal)
	}
	a.failed = cmp.Or(a.failed, err)
}

// throughPager shows a text until the user leaves the pager, which needn't read all of it.
func throughPager(words []string, text *bytes.Buffer, terminal *os.File) error {
	pager := exec.Command(words[0], words[1:]...)
	pager.Stdin, pager.Stdout, pager.Stderr = text, terminal, os.Stderr
	signal.Ignore(os.Interrupt) // a key of the pager
	err := pager.Run()
	if _, left := errors.AsType[*exec.ExitError](err); left {
		return nil
	}
	return err
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
