package tree

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
)

// Readability is what the old program says to a file of an export.
type Readability struct {
	File     string `json:"file"`     // relative to the folder
	Readable bool   `json:"readable"` // by the old program
	Line     int    `json:"line"`     // where it stumbles, from 1; 0 if it does not, or at the file as a whole
	Reason   string `json:"reason"`   // why it can't read it
}

// readAgain reads every file that was written as the old program does.
func (t *Tree) readAgain(ctx context.Context) error {
	t.Folder = Folder{path: t.Root}
	return t.layout.Walk(t.Folder, func(path string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return t.layout.ReadBack(t.Folder, path, t.Report.readable)
	}, func(path, reason string) error {
		t.Report.readable(path, 0, "the old program does not read it: "+reason)
		return nil
	})
}

// readable notes whether the old program can read a file: it can where there is no reason why not.
func (p *Part) readable(file string, line int, reason string) {
	if reason != "" {
		where := ""
		if line > 0 && LineIn(reason) == 0 {
			where = fmt.Sprintf("line %d: ", line)
		}
		p.LeaveOut(file, "is written, but the old program can't read it: "+where+reason)
	}
	if len(p.Readable) == maxRemarks {
		p.Truncated++
		return
	}
	p.Readable = append(p.Readable, Readability{
		File: Shown(file), Readable: reason == "", Line: line,
		Reason: reason,
	})
}

var saidLine = regexp.MustCompile(`(?:^| at )line (\d+)`)

// LineIn is the number of the line that a reason names; 0 if it names none.
func LineIn(reason string) int {
	said := saidLine.FindStringSubmatch(reason)
	if said == nil {
		return 0
	}
	n, err := strconv.Atoi(said[1])
	if err != nil {
		return 0
	}
	return n
}

// LineAt is the number of the line that a byte of a text is in.
func LineAt(text []byte, offset int) int {
	return bytes.Count(text[:min(offset, len(text))], []byte{'\n'}) + 1
}
