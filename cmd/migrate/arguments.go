package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandFirst moves the words that name the command to the front, so that flags may stand
// anywhere. Cobra accepts a command's own flags only after its name. The order of everything else
// stays the same.
func commandFirst(root *cobra.Command, args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return args
	}
	takesValue := valueFlags(root)
	var words, rest []string
	at := root
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		if strings.HasPrefix(arg, "-") && arg != "-" {
			rest = append(rest, arg)
			if i+1 < len(args) && takesValue[arg] {
				i++
				rest = append(rest, args[i])
			}
			continue
		}
		if next := subcommand(at, arg); at.HasSubCommands() && next != nil {
			words, at = append(words, arg), next
			continue
		}
		rest = append(rest, arg)
	}
	return append(words, rest...)
}

func subcommand(of *cobra.Command, name string) *cobra.Command {
	for _, c := range of.Commands() {
		if c.Name() == name || slices.Contains(c.Aliases, name) {
			return c
		}
	}
	return nil
}

// valueFlags returns the flags of all commands, as they are written, that take the next argument as
// their value. A name means the same in every command; a test checks that.
func valueFlags(root *cobra.Command) map[string]bool {
	takes := map[string]bool{}
	add := func(f *pflag.Flag) {
		if f.NoOptDefVal != "" {
			return
		}
		takes["--"+f.Name] = true
		if f.Shorthand != "" {
			takes["-"+f.Shorthand] = true
		}
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return takes
}

// wantsJSON looks for --json without parsing, so that an error in the flags is answered in JSON
// too.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}
