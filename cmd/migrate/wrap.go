package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// described matches a line of help that explains a word. Its continuation is indented to the
// explanation.
var described = regexp.MustCompile(`^ +\S.*?  +`)

// fold breaks lines between words so that they are no wider than a terminal. Lines of prose, which
// begin at the margin, are joined and filled; indented ones are only broken.
func fold(text string, width int) string {
	var out, prose strings.Builder
	flush := func() {
		if prose.Len() > 0 {
			breakLine(&out, prose.String(), "", width)
			prose.Reset()
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line != "" && line[0] != ' ' {
			if prose.Len() > 0 {
				prose.WriteByte(' ')
			}
			prose.WriteString(line)
			continue
		}
		flush()
		hang := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if said := described.FindString(line); said != "" && utf8.RuneCountInString(said) <= width/2 {
			hang = strings.Repeat(" ", utf8.RuneCountInString(said))
		}
		breakLine(&out, line, hang, width)
	}
	flush()
	return out.String()
}

// breakLine writes a line. What does not fit goes into further lines that begin with hang.
func breakLine(out *strings.Builder, line, hang string, width int) {
	for utf8.RuneCountInString(line) > width {
		fits := string([]rune(line)[:width+1])
		at := strings.LastIndexByte(fits, ' ')
		if at <= len(hang) {
			break // a word wider than the line
		}
		out.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = hang + strings.TrimLeft(line[at:], " ")
	}
	out.WriteString(line + "\n")
}
