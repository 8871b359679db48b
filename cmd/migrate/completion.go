package main

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"selvedge/db"
	"selvedge/maintenance"
)

type completionAnswer struct {
	Shell  string `json:"shell"`  // bash, zsh, fish or powershell
	Script string `json:"script"` // what to give the shell
}

var _ = register("Shell:", 10, func(a *app) *cobra.Command {
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
			err := map[string]func(io.Writer) error{
				"bash":       func(to io.Writer) error { return root.GenBashCompletionV2(to, true) },
				"zsh":        root.GenZshCompletion,
				"fish":       func(to io.Writer) error { return root.GenFishCompletion(to, true) },
				"powershell": root.GenPowerShellCompletionWithDesc,
			}[args[0]](&script)
			if err != nil {
				return err
			}
			return a.answer(completionAnswer{args[0], script.String()}, func() { a.write(script.String()) })
		},
	}, completionAnswer{})
})

// completeWords completes a flag that takes one of some words.
func completeWords[S ~string](c *cobra.Command, flag string, words []S) {
	complete(c, flag, cobra.FixedCompletions(texts(words), cobra.ShellCompDirectiveNoFileComp))
}

func complete(c *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // the flag doesn't exist: a mistake in this program
	}
}

const (
	completedIDs    = 100
	completingTakes = time.Second // limit: the person at the shell waits for it
)

// completeFrom completes from what the file holds. If the file can't be read, it completes nothing.
func (a *app) completeFrom(find finder) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) (found []string, _ cobra.ShellCompDirective) {
		a.running = c
		ctx, stop := context.WithTimeout(context.Background(), completingTakes)
		defer stop()
		d, err := db.Open(ctx, a.path, db.Options{ReadOnly: true, LockTimeout: completingTakes})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer d.Close() //nolint:errcheck // opened for reading only
		if found, err = find(ctx, d, prefix); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// A finder returns the ids of one kind that begin with a prefix.
type finder = func(ctx context.Context, d *db.DB, prefix string) ([]string, error)

// completeArgs completes the first argument by a function, and the second, if any, from what the file
// holds for the first.
func (a *app) completeArgs(c *cobra.Command, first cobra.CompletionFunc, second func(first string) finder) {
	c.ValidArgsFunction = func(c *cobra.Command, args []string, prefix string) (
		[]string, cobra.ShellCompDirective,
	) {
		if len(args) == 0 {
			return first(c, args, prefix)
		}
		if len(args) == 1 && second != nil {
			if find := second(args[0]); find != nil {
				return a.completeFrom(find)(c, args, prefix)
			}
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeIDs completes scopes, the ids that flags take, and the commands whose use has ID.
func (a *app) completeIDs(root *cobra.Command) {
	ids := map[string]finder{
		"quarantine": a.named(`SELECT CAST(id AS TEXT) FROM quarantine WHERE scope = ?1`),
		"imports": a.named(`SELECT CAST(i.id AS TEXT) FROM imports AS i
			JOIN import_sources AS s ON s.id = i.source WHERE s.scope = ?1`),
	}
	for _, n := range nouns {
		ids[n.store] = n.complete(a)
	}
	kinds := a.completeFrom(a.named(`SELECT kind FROM leases WHERE scope = ?1`))
	a.completeArgs(subcommand(subcommand(root, "reservations"), "release"), kinds, func(kind string) finder {
		return a.named(`SELECT name FROM leases WHERE scope = ?1 AND (kind = ?2 OR ?2 = '')
			ORDER BY kind, name`, kind)
	})
	ofStore := func(store string) finder {
		if slices.Contains(maintenance.Stores(), store) {
			return ids[store]
		}
		return nil
	}
	a.completeArgs(subcommand(root, "delete"),
		cobra.FixedCompletions(maintenance.Stores(), cobra.ShellCompDirectiveNoFileComp), ofStore)
	subcommand(root, "help").ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (
		names []string, _ cobra.ShellCompDirective,
	) {
		if c, _, err := root.Find(args); err == nil {
			names = each(c.Commands(), (*cobra.Command).Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	subcommand(subcommand(root, "imports"), "resolve").ValidArgsFunction = a.completeFrom(
		a.named(`SELECT entity_id FROM import_conflicts WHERE scope = ?1 AND decided_at IS NULL`))
	for name, find := range ids {
		for _, c := range subcommand(root, name).Commands() {
			_, words, _ := strings.Cut(c.Use, " ")
			if c.ValidArgsFunction == nil && strings.HasPrefix(strings.TrimPrefix(words, "["), "ID") {
				a.completeArgs(c, a.completeFrom(find), nil)
			}
		}
	}
	var versions []string
	for n := range maintenance.SchemaVersion() {
		versions = append(versions, strconv.FormatInt(n+1, 10))
	}
	completeFlags(root, map[string]cobra.CompletionFunc{
		"scope": a.completeFrom(a.findScopes),
		"agent": a.completeFrom(a.named(`SELECT agent_id FROM run_agents WHERE scope = ?1
			UNION SELECT session_id FROM agents WHERE scope = ?1`)),
		"session": a.completeFrom(a.named(`SELECT DISTINCT session_id FROM live_runs WHERE scope = ?1`)),
		"runtime": a.completeFrom(a.named(`SELECT runtime_id FROM worker_runtimes WHERE scope = ?1`)),
		"run": a.completeFrom(a.named(`SELECT run_id FROM runs WHERE scope = ?1 UNION SELECT run_id FROM live_runs
			WHERE scope = ?1 UNION SELECT run_id FROM checkpoints WHERE scope = ?1`)),
		"thread": a.completeFrom(a.named(`SELECT thread FROM agents WHERE scope = ?1`)),
		"kind":   kinds,
		"to":     cobra.FixedCompletions(versions, cobra.ShellCompDirectiveNoFileComp),
	})
}

// completeFlags completes the flags of all commands by name, and stops a shell from offering file
// names where no file is meant.
func completeFlags(c *cobra.Command, by map[string]cobra.CompletionFunc) {
	takesFile := slices.Contains([]string{"backup", "restore", "salvage"}, c.Name())
	if c.ValidArgsFunction == nil && c.ValidArgs == nil && !c.HasSubCommands() && !takesFile {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		namesFile := f.Name == "db" || c.Name() == "move" && f.Name == "to"
		if _, known := c.GetFlagCompletionFunc(f.Name); known || namesFile {
			return
		}
		if by[f.Name] == nil {
			by[f.Name] = cobra.NoFileCompletions
		}
		complete(c, f.Name, by[f.Name])
	})
	for _, sub := range c.Commands() {
		completeFlags(sub, by)
	}
}

func (a *app) findScopes(ctx context.Context, d *db.DB, prefix string) (names []string, err error) {
	names, err = scopeNames(ctx, d, "name")
	return slices.DeleteFunc(names, func(name string) bool {
		return name == "" || !strings.HasPrefix(name, prefix)
	}), err
}

// named finds what a query returns for the scope, and for more arguments.
func (a *app) named(query string, more ...any) finder {
	return func(ctx context.Context, d *db.DB, prefix string) (names []string, err error) {
		err = d.Read(ctx, "complete", func(rx *db.Rx) error {
			scope, _, err := rx.Store().Scope(a.scope)
			if err != nil {
				return err
			}
			return rx.Select(&names, `SELECT * FROM (`+query+`) AS named`, append([]any{scope}, more...)...)
		})
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
		return names[:min(len(names), completedIDs)], err
	}
}
