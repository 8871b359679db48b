package tree

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
)

// Readability says whether the old program can read a file of an export.
type Readability struct {
	File     string `json:"file"`     // relative to the folder
	Readable bool   `json:"readable"` // by the old program
	Line     int    `json:"line"`     // where it fails, from 1; 0 if it does not, or fails for the whole file
	Reason   string `json:"reason"`   // why it can't read it
}

// readBack reads every file that was written, as the old program does.
func (t *Tree) readBack(ctx context.Context) error {
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

// readable notes whether the old program can read a file: it can if reason is "".
func (p *Part) readable(file string, line int, reason string) {
	if reason != "" {
		where := ""
		if line > 0 && LineIn(reason) == 0 {
			where = fmt.Sprintf("line %d: ", line)
		}
		p.LeaveOut(file, "is written, but the old program can't read it: "+where+reason)
	}
	addTo(p, &p.Readable, Readability{File: Shown(file), Readable: reason == "", Line: line, Reason: reason})
}

var saidLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^| at )line (\d+)`)
})

// LineIn is the line number in a reason; 0 if it has none.
func LineIn(reason string) int {
	n := 0
	if said := saidLine().FindStringSubmatch(reason); said != nil {
		n, _ = strconv.Atoi(said[1])
	}
	return n
}

// LineAt is the number of the line with the byte at an offset.
func LineAt(text []byte, offset int) int {
	return bytes.Count(text[:min(offset, len(text))], []byte{'\n'}) + 1
}
