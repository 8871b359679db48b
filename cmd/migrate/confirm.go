package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// yesFlag adds --yes to a command that asks.
func yesFlag(c *cobra.Command, yes *bool) { c.Flags().BoolVar(yes, "yes", false, "don't ask") }

// confirm asks on a terminal before data is removed. Elsewhere it returns an error that names
// --yes.
func (a *app) confirm(yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	what := line(format, args...)
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return fail(kindUsage, "to mean it: "+a.typed("--yes"),
			"this would %s, and nobody can be asked here", what)
	}
	if _, err := fmt.Fprintf(a.stderr, "This will %s. Go on? [y/N] ", what); err != nil {
		return err
	}
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fail(kindFailed, "", "nothing was done")
}
