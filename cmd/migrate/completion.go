package main

import (
	"strings"

	"github.com/spf13/cobra"
)

type completionAnswer struct {
	Shell  string `json:"shell" doc:"bash, zsh, fish or powershell"`
	Script string `json:"script" doc:"what to give the shell"`
}

func (a *app) completionCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print the script that completes commands and flags in a shell",
		Long: `completion prints a script for a shell. To have it in every bash, for example:

    migrate completion bash > ~/.local/share/bash-completion/completions/migrate`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(_ *cobra.Command, args []string) error {
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
			if a.json {
				return a.printJSON(completionAnswer{args[0], script.String()})
			}
			return a.print("%s", script.String())
		},
	}
}
