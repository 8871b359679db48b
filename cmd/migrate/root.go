package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selvedge/db"
	"selvedge/internal/txn"
)

// defaultPath is the file if neither --db nor SELVEDGE_DB names one.
const defaultPath = "selvedge.db"

// An app is one run of the program: where it reads and writes, and the flags that every command
// has.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// stop ends the context of the command, with the cause.
	stop    context.CancelCauseFunc
	running *cobra.Command // nil until a command was recognised
	given   []string       // its arguments
	args    []string       // all words of the command line
	screen  screen         // what stdout is

	path  string
	scope string
	wait  time.Duration // 0: no limit
	// timeout bounds the statements of query on a server; 0: nothing does.
	timeout time.Duration
	json    bool
	quiet   bool

	answers    map[*cobra.Command]any            // what commands print with --json
	checks     map[*cobra.Command][]func() error // of their flags
	afterwards []string                          // notes to print below the answer
	failed     error                             // the first failure to write to stdout
}

// registered are the top-level commands.
var registered []registration

type registration struct {
	group string
	order int
	build func(*app) *cobra.Command
}

// register adds a top-level command to a group of the help, which lists by order. The file of the
// command calls it for a package-level variable. Orders are 10 apart, to leave room for new
// commands.
func register(group string, order int, build func(*app) *cobra.Command) registration {
	r := registration{group, order, build}
	registered = append(registered, r)
	return r
}

// answering records the type that a command prints with --json. docs/CLI.md is made from it.
func (a *app) answering(c *cobra.Command, answer any) *cobra.Command {
	a.answers[c] = answer
	return c
}

func newRootCommand(a *app) *cobra.Command {
	a.answers, a.checks = map[*cobra.Command]any{}, map[*cobra.Command][]func() error{}
	cobra.EnableCommandSorting = false // the help lists them by group and order
	root := &cobra.Command{
		Use:   "migrate",
		Short: "Bring agent state into one SQLite file, look after the file, and look into it",
		Long: `migrate brings the trees of the five old stores into one SQLite file and out again, migrates
the file's schema, looks after it, and lets people look.

The file is --db, else SELVEDGE_DB, else selvedge.db in the working directory. Only up, import and
restore create it. --db may also be the address of a PostgreSQL server; docs/postgres.md says what
differs there.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("version") {
				return a.version(c.Context())
			}
			return c.Help()
		},
		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			a.running, a.given = c, args
			return a.settle(c)
		},
	}
	root.Flags().Bool("version", false, "show the versions, as the command version does")
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&a.path, "db", defaultPath,
		"the `FILE`, or a server as postgres://user@host:port/database; SELVEDGE_DB names another default")
	if env := os.Getenv("SELVEDGE_DB"); env != "" {
		a.path = env // not as the default, which the help would show
	}
	flags.StringVar(&a.scope, "scope", "", "`NAME` of the scope to work in; empty is the default scope")
	flags.DurationVar(&a.wait, "wait", 0,
		"wait for other processes at most this `TIME`, as in 30s (default: until interrupted)")
	flags.BoolVar(&a.json, "json", false, "one JSON value on stdout, and an error as a JSON object on stderr")
	flags.BoolVar(&a.quiet, "quiet", false, "no progress and no notes on stderr")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		a.running = c
		unknown, _ := errors.AsType[*pflag.NotExistError](err)
		return &fault{kind: kindUsage, hint: a.flagHint(c, unknown), err: err}
	})
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	a.showHelp(root)

	groups := []string{"Schema:", "Trees:", "Care:", "Look:", "Shell:"}
	for _, title := range groups {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
	}
	ordered := slices.SortedStableFunc(slices.Values(registered), func(x, y registration) int {
		return cmp.Or(slices.Index(groups, x.group)-slices.Index(groups, y.group), x.order-y.order)
	})
	for _, r := range ordered {
		c := r.build(a)
		c.GroupID = r.group // cobra panics if there is no such group
		root.AddCommand(c)
	}
	root.SetHelpCommand(subcommand(root, "help"))
	a.completeIDs(root)
	a.finish(root)
	return root
}

// finish gives every command what all commands have: flags in the order of their declaration, and
// usage errors for too few or too many words.
func (a *app) finish(c *cobra.Command) {
	c.Flags().SortFlags = false
	c.DisableFlagsInUseLine = true
	check := c.Args
	if check == nil {
		check = cobra.NoArgs
	}
	c.Args = func(c *cobra.Command, args []string) error {
		a.running = c
		err := check(c, args)
		if _, known := errors.AsType[*fault](err); err == nil || known {
			return err
		}
		return fail(kindUsage, helpHint(c), "%w, as in: %s", err, c.UseLine())
	}
	for _, sub := range c.Commands() {
		a.finish(sub)
	}
}

// group makes the command that only holds others: runs, quarantine.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noSuchCommand, RunE: commandMissing}
	c.AddCommand(commands...)
	return c
}

func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := helpHint(c)
	c.SuggestionsMinimumDistance = 2
	near := c.SuggestionsFor(args[0])
	longer := func(name string) bool { return strings.HasPrefix(name, args[0]) }
	near = append(slices.DeleteFunc(slices.Clone(near), func(name string) bool { return !longer(name) }),
		slices.DeleteFunc(near, longer)...)
	if len(near) > 0 {
		hint = "did you mean: " + c.CommandPath() + " " + strings.Join(near, "\nor: "+c.CommandPath()+" ")
	}
	return fail(kindUsage, hint, "%s has no command %q", c.CommandPath(), args[0])
}

func commandMissing(c *cobra.Command, _ []string) error {
	return fail(kindUsage, helpHint(c), "%s needs a command", c.CommandPath())
}

func helpHint(c *cobra.Command) string { return "see: " + c.CommandPath() + " --help" }

// settle decides what the flags and the environment leave open.
func (a *app) settle(c *cobra.Command) error {
	a.json = c.Flags().Changed("json") && a.json
	if err := checkPlace("--db", a.path, c.Flags().Changed("db")); err != nil {
		return err
	}
	if a.onServer() {
		if err := a.checkServer(); err != nil {
			return err
		}
		c.SetContext(db.WithWaits(c.Context(), a.noteLockWait))
	}
	if c.Flags().Changed("wait") && a.wait <= 0 {
		return usage("--wait %v: it is more than 0", a.wait)
	}
	if a.json {
		a.stdout = &jsonEscaper{to: a.stdout}
	}
	if err := txn.CheckID("scope", a.scope); err != nil {
		return err
	}
	for _, check := range a.checks[c] {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// helpAnswer is what --help prints with --json.
type helpAnswer struct {
	Help string `json:"help"` // the help text
}

var _ = register("Shell:", 20, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Say how a command is used",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			c, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return noSuchCommand(c, rest)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}, helpAnswer{})
})

// showHelp fits the help into a terminal. With --json the help is an answer too.
func (a *app) showHelp(root *cobra.Command) {
	plain := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text strings.Builder
		c.SetOut(&text)
		plain(c, args)
		c.SetOut(out)
		help := text.String()
		if width := screenOf(out).width; width > 0 && !a.json {
			help = fold(help, width)
		}
		if err := a.answer(helpAnswer{help}, func() { a.write(help) }); err != nil {
			a.stop(err)
		}
	})
}
