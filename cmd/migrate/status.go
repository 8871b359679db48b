package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/maintenance"
)

type statusAnswer struct {
	Path string `json:"path"` // the file, absolute
	// current, older (up would migrate it), newer (than this program, which can read it) or moved
	// (elsewhere, or under way there: nobody may write it)
	State string `json:"state"`
	// where it was moved to, or is being moved; left out if it was not
	MovedTo       string `json:"moved_to,omitempty"`
	Schema        int64  `json:"schema"`         // schema version of the file
	ProgramSchema int64  `json:"program_schema"` // schema version of this program
	// lowest schema version of a program that may read the file
	MinReader int64 `json:"min_reader"`
	// lowest schema version of a program that may write it
	MinWriter int64 `json:"min_writer"`
	// the schema versions that this program knows, lowest first
	Versions []maintenance.Migration `json:"versions"`
}

var _ = register("Schema:", 30, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "status",
		Short: "Show the file's schema version and what is to be migrated",
		RunE:  a.on(toLook, a.status),
	}, statusAnswer{})
})

func (a *app) status(ctx context.Context, d *db.DB, _ []string) error {
	s, err := d.Schema(ctx)
	if err != nil {
		return err
	}
	known, err := maintenance.Migrations(a.path, s.Version)
	if err != nil {
		return err
	}
	answer := statusAnswer{
		Path: d.Path(), State: "current", Schema: s.Version, ProgramSchema: maintenance.SchemaVersion(),
		MinReader: s.MinReader, MinWriter: s.MinWriter,
		Versions: orEmpty(known),
	}
	writers := fmt.Sprintf("by programs from schema %d on", answer.MinWriter)
	switch {
	case s.Moved:
		answer.State, answer.MovedTo, writers = "moved", s.MovedTo, "by nobody: it is at "+s.MovedTo+" now"
	case answer.Schema < answer.ProgramSchema:
		answer.State = "older"
	case answer.Schema > answer.ProgramSchema:
		answer.State = "newer"
	}
	return a.answer(answer, func() {
		a.printFacts(
			"file", answer.Path, "state", answer.State,
			"schema", fmt.Sprintf("%d (this program: %d)", answer.Schema, answer.ProgramSchema),
			"may be read", fmt.Sprintf("by programs from schema %d on", answer.MinReader),
			"may be written", writers,
		)
		for _, v := range answer.Versions {
			if !v.Applied {
				a.print("to do: %d  %s\n", v.Version, v.Name)
			}
		}
	})
}
