package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"selvedge/db"
)

type statusAnswer struct {
	Path string `json:"path"` // the file, absolute
	// current, older (up would migrate it), newer (than this program, which can read it) or moved
	// (elsewhere, or under way there: nobody may write it)
	State         string `json:"state"`
	Schema        int64  `json:"schema"`         // schema version of the file
	ProgramSchema int64  `json:"program_schema"` // schema version of this program
	// lowest schema version of a program that may read the file
	MinReader int64 `json:"min_reader"`
	// lowest schema version of a program that may write it
	MinWriter int64 `json:"min_writer"`
	// the schema versions that this program knows, lowest first
	Versions []versionStatus `json:"versions"`
}

type versionStatus struct {
	Version int64  `json:"version"` // schema version
	Name    string `json:"name"`    // of the migration's file
	Applied bool   `json:"applied"` // the file has it
}

func init() { register(groupSchema, (*app).statusCommand) }

func (a *app) statusCommand() *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "status",
		Short: "Show the file's schema version and what is to be migrated",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return a.status(c.Context()) },
	}, statusAnswer{})
}

func (a *app) status(ctx context.Context) error {
	var answer statusAnswer
	moved := false
	err := a.with(ctx, toLook, func(d *db.DB) error {
		schema, err := d.Schema(ctx)
		moved = schema.Moved
		answer = statusAnswer{
			Path: d.Path(), State: "current", Schema: schema.Version, ProgramSchema: db.SchemaVersion(),
			MinReader: schema.MinReader, MinWriter: schema.MinWriter, Versions: []versionStatus{},
		}
		return err
	})
	if err != nil {
		return err
	}
	switch {
	case moved:
		answer.State = "moved"
	case answer.Schema < answer.ProgramSchema:
		answer.State = "older"
	case answer.Schema > answer.ProgramSchema:
		answer.State = "newer"
	}
	migrations, err := db.Migrations(a.path, answer.Schema)
	if err != nil {
		return err
	}
	for _, m := range migrations {
		answer.Versions = append(answer.Versions, versionStatus{m.Version, m.Name, m.Applied})
	}
	if a.json {
		return a.printJSON(answer)
	}
	writers := fmt.Sprintf("by programs from schema %d on", answer.MinWriter)
	if moved {
		writers = "by nobody: who tries is told where it is now"
	}
	if err := a.printFacts(
		[2]string{"file", answer.Path},
		[2]string{"state", answer.State},
		[2]string{"schema", fmt.Sprintf("%d (this program: %d)", answer.Schema, answer.ProgramSchema)},
		[2]string{"may be read", fmt.Sprintf("by programs from schema %d on", answer.MinReader)},
		[2]string{"may be written", writers},
	); err != nil {
		return err
	}
	for _, v := range answer.Versions {
		if !v.Applied {
			if err := a.print("to do: %d  %s\n", v.Version, v.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
