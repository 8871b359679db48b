package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"selvedge/db"
)

type healthAnswer struct {
	Path      string `json:"path" doc:"the file, absolute"`
	FileBytes int64  `json:"file_bytes" doc:"size of the file; on a server of its tables with their indexes. What follows a server does not tell: it is 0, empty or false there"`
	WALBytes  int64  `json:"wal_bytes" doc:"size of its -wal: at most 64 MB unless a read takes longer than 5 s"`
	FreeBytes int64  `json:"free_bytes" doc:"what deletions freed in the file; it goes back to the disk within a minute while a program has the file open"`
	DiskFree  int64  `json:"disk_free" doc:"bytes free on the disk"`
	Readers   []int  `json:"readers" doc:"process ids that read at the moment, where the system tells"`
	Full      bool   `json:"full" doc:"a deletion had to use the reserve of the full disk"`
}

func (a *app) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Show the room that the file takes at the moment, and who reads it",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return a.health(c.Context()) },
	}
}

func (a *app) health(ctx context.Context) error {
	var answer healthAnswer
	err := a.with(ctx, toLook, func(d *db.DB) error {
		h, err := d.Health(ctx)
		answer = healthAnswer{
			Path: d.Path(), FileBytes: h.FileBytes, WALBytes: h.WALBytes, FreeBytes: h.FreePages * h.PageSize, DiskFree: h.DiskFree,
			Readers: append([]int{}, h.Readers...), Full: h.Full,
		}
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(answer)
	}
	readers := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(answer.Readers)), ", "), "[]")
	if readers == "" {
		readers = "nobody"
	}
	facts := [][2]string{{"file", answer.Path}, {"size", humanize.IBytes(uint64(answer.FileBytes))}}
	if a.onServer() {
		return a.printFacts(facts...)
	}
	return a.printFacts(append(facts,
		[2]string{"WAL", humanize.IBytes(uint64(answer.WALBytes))},
		[2]string{"free", humanize.IBytes(uint64(answer.FreeBytes))},
		[2]string{"free on the disk", humanize.IBytes(uint64(answer.DiskFree))},
		[2]string{"read by", readers},
	)...)
}
