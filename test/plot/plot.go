// Package plot draws curves as SVG, for the pages that show figures of long runs.
package plot

import (
	"bytes"
	"fmt"
	"slices"
	"text/template"
)

// A Curve is drawn from 0 to its maximum, below its words.
type Curve struct {
	Words  string
	Points []float64 // at least two, none below 0
}

// Line is the points in a box of 600 by 60.
func (c Curve) Line() (points string) {
	most := max(slices.Max(c.Points), 1)
	for i, n := range c.Points {
		points += fmt.Sprintf("%.1f,%.1f ", 600*float64(i)/float64(len(c.Points)-1), 60-60*n/most)
	}
	return points
}

var page = template.Must(template.New("").Funcs(template.FuncMap{"y": func(i int) int { return 24 + 96*i }}).
	Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {{y (len .Curves)}}" role="img"
  font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="20" y="18">{{.Title}}</text>
{{range $i, $c := .Curves}}<g transform="translate(20 {{y $i}})"><text y="16">{{.Words}}</text>
<g transform="translate(0 24)"><path d="{{range $.Grid}}M{{.}} 0V60{{end}}" stroke="#ddd"/>
<path d="M0 60H600" stroke="#888"/>
<polyline points="{{.Line}}" fill="none" stroke="#06c"/></g></g>
{{end}}</svg>
`))

// Draw draws curves below each other, with lines that divide each into equal parts.
func Draw(title string, parts int, curves []Curve) ([]byte, error) {
	var grid []int
	for i := 1; i < parts; i++ {
		grid = append(grid, 600*i/parts)
	}
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{"Title": title, "Grid": grid, "Curves": curves})
	return out.Bytes(), err
}
