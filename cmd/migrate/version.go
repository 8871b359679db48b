package main

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

// version is set by the build: go build -ldflags "-X main.version=v1.2.3".
var version = ""

type versionAnswer struct {
	Program string `json:"program"` // version of this program; devel where it was built without one
	// the commit that it was built from; empty where the build did not know
	Revision string `json:"revision"`
	Schema   int64  `json:"schema"`   // schema version of this program
	SQLite   string `json:"sqlite"`   // version of the SQLite inside
	Go       string `json:"go"`       // version of Go that built it
	Platform string `json:"platform"` // operating system and architecture
}

var _ = register("Schema:", 40, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "version",
		Short: "Show the versions of the program and of its schema",
		RunE:  func(c *cobra.Command, _ []string) error { return a.version(c.Context()) },
	}, versionAnswer{})
})

func (a *app) version(ctx context.Context) error {
	answer := versionAnswer{
		Program: cmp.Or(version, "devel"), Schema: maintenance.SchemaVersion(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				answer.Revision = s.Value
			}
		}
	}
	memory, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		return err
	}
	defer memory.Close() //nolint:errcheck // a database in memory
	stats, err := memory.Stats(ctx)
	if err != nil {
		return err
	}
	answer.SQLite = strings.TrimPrefix(stats.Engine, "SQLite ")
	return a.answer(answer, func() {
		a.printFacts(
			"program", answer.Program, "revision", cmp.Or(answer.Revision, "unknown"),
			"schema", strconv.FormatInt(answer.Schema, 10), "sqlite", answer.SQLite, "go", answer.Go,
			"platform", answer.Platform,
		)
	})
}
