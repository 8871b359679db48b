package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selvedge/db"
)

type completionAnswer struct {
	Shell  string `json:"shell"`  // bash, zsh, fish or powershell
	Script string `json:"script"` // what to give the shell
}

func (a *app) completionCommand() *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print the script that completes commands, flags, words, ids and scopes in a shell",
		Long: `completion prints a script for a shell. To have it in every bash, for example:

    migrate completion bash > ~/.local/share/bash-completion/completions/migrate`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			var script strings.Builder
			var err error
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(&script, true)
			case "zsh":
				err = root.GenZshCompletion(&script)
			case "fish":
				err = root.GenFishCompletion(&script, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(&script)
			}
			if err != nil {
				return err
			}
			return a.say(completionAnswer{args[0], script.String()}, "%s", script.String())
		},
	}, completionAnswer{})
}

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeWords completes a flag that takes one of some words.
func completeWords[S ~string](c *cobra.Command, flag string, words []S) {
	complete(c, flag, cobra.FixedCompletions(texts(words), cobra.ShellCompDirectiveNoFileComp))
}

func complete(c *cobra.Command, flag string, with completer) {
	if err := c.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // the flag isn't there: a mistake in this program
	}
}

const (
	completedIDs    = 100
	completingTakes = time.Second // at most: somebody waits for the key
)

// completeFrom completes what the file knows; where the file can't be read, nothing.
func (a *app) completeFrom(find func(ctx context.Context, d *db.DB, prefix string) ([]string,
	error),
) completer {
	return func(c *cobra.Command, args []string, prefix string) (found []string, _ cobra.ShellCompDirective) {
		a.running = c
		ctx, stop := context.WithTimeout(context.Background(), completingTakes)
		defer stop()
		d, err := db.Open(ctx, a.path, db.Options{ReadOnly: true, LockTimeout: completingTakes})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer d.Close() //nolint:errcheck // it was only read
		if found, err = find(ctx, d, prefix); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// A finder gives the ids of a sort that begin with a prefix.
type finder = func(ctx context.Context, d *db.DB, prefix string) ([]string, error)

// completeIDs completes scopes, and the ids that commands of a group take, those whose use says ID,
// and that flags take.
func (a *app) completeIDs(root *cobra.Command) {
	complete(root, "scope", a.completeFrom(a.findScopes))
	stores := map[string]finder{}
	for _, n := range nouns {
		stores[n.store] = n.complete(a)
	}
	flags := map[string]finder{
		"agent": a.named(`SELECT agent_id FROM run_agents WHERE scope = ? UNION SELECT session_id FROM agents
			WHERE scope = ?`, 2),
		"session": a.named(`SELECT DISTINCT session_id FROM live_runs WHERE scope = ?`, 1),
		"runtime": a.named(`SELECT runtime_id FROM worker_runtimes WHERE scope = ?`, 1),
		"run": a.named(`SELECT run_id FROM runs WHERE scope = ? UNION SELECT run_id FROM live_runs
			WHERE scope = ? UNION SELECT run_id FROM checkpoints WHERE scope = ?`, 3),
	}
	threads := a.named(`SELECT thread FROM agents WHERE scope = ?`, 1)
	kinds := a.named(`SELECT kind FROM leases WHERE scope = ?`, 1)
	for _, c := range []string{"list", "reap"} {
		complete(subcommand(subcommand(root, "agents"), c), "thread", a.completeFrom(threads))
	}
	reservations := subcommand(root, "reservations")
	complete(subcommand(reservations, "list"), "kind", a.completeFrom(kinds))
	subcommand(reservations, "release").ValidArgsFunction = func(c *cobra.Command, args []string,
		prefix string,
	) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return a.completeFrom(kinds)(c, args, prefix)
		case 1:
			return a.completeFrom(a.reservedNames(args[0]))(c, args, prefix)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range []string{"up", "down"} {
		complete(subcommand(root, name), "to",
			func(*cobra.Command, []string, string) (versions []string, _ cobra.ShellCompDirective) {
				for n := range db.SchemaVersion() {
					versions = append(versions, strconv.FormatInt(n+1, 10))
				}
				return versions, cobra.ShellCompDirectiveNoFileComp
			})
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for name, find := range flags {
			if c.LocalNonPersistentFlags().Lookup(name) != nil {
				complete(c, name, a.completeFrom(find))
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	subcommand(root, "delete").ValidArgsFunction = func(c *cobra.Command, args []string,
		prefix string,
	) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return db.Stores(), cobra.ShellCompDirectiveNoFileComp
		}
		if find := stores[args[0]]; find != nil && len(args) == 1 {
			return a.completeFrom(find)(c, args, prefix)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	contested := a.completeFrom(a.named(`SELECT entity_id FROM import_conflicts WHERE scope = ?
		AND decided_at IS NULL`, 1))
	subcommand(subcommand(root, "imports"), "resolve").ValidArgsFunction = contested
	groups := maps.Clone(stores)
	groups["quarantine"] = a.named(`SELECT CAST(id AS TEXT) FROM quarantine WHERE scope = ?`, 1)
	groups["imports"] = a.named(`SELECT CAST(i.id AS TEXT) FROM imports AS i
		JOIN import_sources AS s ON s.id = i.source WHERE s.scope = ?`, 1)
	for name, find := range groups {
		ids := a.completeFrom(find)
		for _, c := range subcommand(root, name).Commands() {
			_, words, _ := strings.Cut(c.Use, " ")
			if c.ValidArgsFunction != nil || !strings.HasPrefix(strings.TrimPrefix(words, "["), "ID") {
				continue
			}
			c.ValidArgsFunction = func(c *cobra.Command, args []string, prefix string) ([]string,
				cobra.ShellCompDirective,
			) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return ids(c, args, prefix)
			}
		}
	}
	subcommand(root, "help").ValidArgsFunction = func(_ *cobra.Command, args []string,
		_ string,
	) (names []string, _ cobra.ShellCompDirective) {
		if c, _, err := root.Find(args); err == nil {
			for _, sub := range c.Commands() {
				names = append(names, sub.Name())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	completeNoFiles(root)
}

// completeNoFiles keeps a shell from offering the names of files where no file is meant.
func completeNoFiles(c *cobra.Command) {
	takesFile := slices.Contains([]string{"backup", "restore", "salvage"}, c.Name())
	if c.ValidArgsFunction == nil && c.ValidArgs == nil && !c.HasSubCommands() && !takesFile {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		namesFile := f.Name == "db" || c.Name() == "move" && f.Name == "to"
		if _, known := c.GetFlagCompletionFunc(f.Name); !known && !namesFile {
			complete(c, f.Name, cobra.NoFileCompletions)
		}
	})
	for _, sub := range c.Commands() {
		completeNoFiles(sub)
	}
}

// reservedNames finds what is reserved of a kind.
func (a *app) reservedNames(kind string) finder {
	return func(ctx context.Context, d *db.DB, prefix string) (names []string, err error) {
		for r, err := range d.AllReservations(ctx, db.ReservationFilter{Scope: a.scope, Kind: kind}) {
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(r.Name, prefix) && len(names) < completedIDs {
				names = append(names, r.Name)
			}
		}
		return names, nil
	}
}

func (a *app) findScopes(ctx context.Context, d *db.DB, prefix string) (names []string, err error) {
	err = d.Read(ctx, "complete", func(rx *db.Rx) error {
		return rx.Select(&names,
			`SELECT name FROM scopes ORDER BY name`)
	})
	return slices.DeleteFunc(names, func(name string) bool {
		return name == "" || !strings.HasPrefix(name, prefix)
	}), err
}

// named finds what a query gives that asks for the scope n times.
func (a *app) named(query string, n int) finder {
	return func(ctx context.Context, d *db.DB, prefix string) (names []string, err error) {
		err = d.Read(ctx, "complete", func(rx *db.Rx) error {
			scope, _, err := rx.Scope(a.scope)
			if err != nil {
				return err
			}
			return rx.Select(&names, `SELECT * FROM (`+query+`) AS named`, slices.Repeat([]any{scope}, n)...)
		})
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
		return names[:min(len(names), completedIDs)], err
	}
}
