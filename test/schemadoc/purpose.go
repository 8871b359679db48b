package schemadoc

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// purposes are the comments of the migrations: above CREATE statements, at their heads and beside columns.
type purposes struct {
	of       map[string]string // by table, index, trigger or view
	notes    map[string]tableNotes
	chapters []chapter
}

// A chapter is one migration that made tables.
type chapter struct {
	title  string
	tables []string
}

var created = regexp.MustCompile(`(?i)^CREATE\s+(?:UNIQUE\s+)?(TABLE|INDEX|TRIGGER|` +
	`VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?"?(\w+)`)

func readPurposes(files fs.FS) (purposes, error) {
	p := purposes{of: map[string]string{}, notes: map[string]tableNotes{}}
	migrations, err := fs.Glob(files, "*.sql")
	if err != nil {
		return p, err
	}
	views, err := fs.Glob(files, "views/*.sql")
	if err != nil {
		return p, err
	}
	for _, name := range slices.Concat(migrations, views) {
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return p, fmt.Errorf("read %s: %w", name, err)
		}
		up, _, _ := strings.Cut(string(script), "-- +goose Down")
		p.read(up)
		p.follow(up)
		p.explainAgain(up)
	}
	return p, nil
}

func (p *purposes) read(script string) {
	head, above := "", ""
	used := false // above has a statement already; indexes that follow each other share it
	var tables []string
	for i, line := range strings.Split(script, "\n") {
		comment, isComment := strings.CutPrefix(line, "--")
		made := created.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "-- +goose"): // between a comment and its statement
		case isComment:
			if used {
				above, used = "", false
			}
			above = join(above, strings.TrimSpace(comment))
		case made != nil:
			if strings.EqualFold(made[1], "TABLE") {
				tables = append(tables, made[2])
			}
			p.of[made[2]] = above
			used = true
		default:
			if i > 0 && head == "" && len(tables) == 0 {
				head = above
			}
			above, used = "", false
		}
	}
	if len(tables) > 0 {
		p.chapters = append(p.chapters, chapter{title: head, tables: tables})
	}
}
