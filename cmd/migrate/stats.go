package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"selvedge/db"
)

type statsAnswer struct {
	Path      string `json:"path"`       // the file, absolute
	Schema    int64  `json:"schema"`     // schema version of the file
	MinReader int64  `json:"min_reader"` // lowest schema version of a program that may read the file
	MinWriter int64  `json:"min_writer"` // lowest schema version of a program that may write it
	// what keeps it, with its version: the SQLite in this program, or the PostgreSQL of the server
	Engine    string    `json:"engine"`
	CreatedAt time.Time `json:"created_at"` // when the file was made, RFC 3339, UTC
	// size of the file; on a server of its tables with their indexes
	FileBytes int64 `json:"file_bytes"`
	// size of its -wal, which stays allocated while the file is in use; 0 on a server, where it is that of
	// all databases
	WALBytes  int64       `json:"wal_bytes"`
	PageSize  int64       `json:"page_size"`  // bytes
	Pages     int64       `json:"pages"`      // pages of the file
	FreePages int64       `json:"free_pages"` // pages that hold nothing; 0 on a server
	Tables    []tableSize `json:"tables"`     // every table, by name
}

type tableSize struct {
	Name string `json:"name"` // of the table
	Rows int64  `json:"rows"` // how many it has, in all scopes
}

var _ = register("Care:", 50, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "stats",
		Short: "Show the sizes of the file and the rows of its tables",
		RunE:  a.on(toLook, a.stats),
	}, statsAnswer{})
})

func (a *app) stats(ctx context.Context, d *db.DB, _ []string) error {
	s, err := d.Stats(ctx)
	if err != nil {
		return err
	}
	return a.answer(statsAnswer{
		Path: s.Path, Schema: s.Schema, MinReader: s.MinReader, MinWriter: s.MinWriter, Engine: s.Engine,
		CreatedAt: s.CreatedAt, FileBytes: s.FileBytes, WALBytes: s.WALBytes, PageSize: s.PageSize, Pages: s.Pages,
		FreePages: s.FreePages,
		Tables:    each(s.Tables, func(t db.TableStats) tableSize { return tableSize{t.Name, t.Rows} }),
	}, func() {
		facts := []string{
			"file", s.Path, "engine", s.Engine, "schema", strconv.FormatInt(s.Schema, 10),
			"made", a.when(s.CreatedAt), "size", size(s.FileBytes),
		}
		if !a.onServer() {
			facts = append(facts, "WAL", size(s.WALBytes), "free", size(s.FreePages*s.PageSize))
		}
		a.printFacts(facts...)
		g := &grid{header: []string{"table", "rows"}, right: []int{1}}
		for _, t := range s.Tables {
			if t.Rows > 0 {
				g.add(t.Name, comma(t.Rows))
			}
		}
		if empty := len(s.Tables) - len(g.rows); empty > 0 {
			a.note("note: %s without rows; --json has all", count(empty, "table"))
		}
		a.printGrid(g)
	})
}
