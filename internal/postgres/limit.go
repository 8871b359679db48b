package postgres

import (
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// mostLimits is how many numbers of rows a statement is prepared for.
const mostLimits = 4

// A limit is the place in a statement of the parameter that limits its rows. The server's generic
// plan, for any number, assumes a tenth of the table, and so is never chosen as the cached plan:
// the statement is planned at each call, which takes longer than reading a page. So once a number
// comes twice in a row, the statement is prepared again with the number written out.
type limit struct {
	text   string
	at     [2]int // the range to write over
	number int    // of the parameter; 0 without one
	last   int64  // the number of the call before
	by     map[int64]*prepared
}

// boundLimit is how db.BoundLimit arrives here.
var boundLimit = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`LIMIT (CAST\(\$([0-9]+) AS BIGINT\))$`)
})

func (l *limit) find(text string) {
	if m := boundLimit().FindStringSubmatchIndex(text); m != nil {
		l.text, l.at = text, [2]int{m[2], m[3]}
		l.number, _ = strconv.Atoi(text[m[4]:m[5]])
	}
}

// all returns a statement and its variants that have a number of rows written out.
func (l *limit) all(p *prepared) []*prepared {
	return append(slices.Collect(maps.Values(l.by)), p)
}

// limited returns the variant of the statement that has the number of rows written out, once
// there is one. It takes all of the arguments.
func (w *wire) limited(ctx context.Context, p *prepared, args []driver.Value) (*prepared, error) {
	l := &p.limit
	if l.number == 0 {
		return p, nil
	}
	rows, ok := args[l.number-1].(int64)
	if !ok {
		return p, nil
	}
	if written := l.by[rows]; written != nil {
		return written, nil
	}
	if rows != l.last || rows < 0 || len(l.by) >= mostLimits {
		l.last = rows
		return p, nil
	}
	if err := w.free(); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%s%d%s", l.text[:l.at[0]], rows, l.text[l.at[1]:])
	written, err := w.prepare(ctx, text, p.ParamOIDs)
	if err != nil {
		return nil, err
	}
	if written.changes, written.draws = p.changes, p.draws; l.by == nil {
		l.by = map[int64]*prepared{}
	}
	l.by[rows] = written
	return written, nil
}
