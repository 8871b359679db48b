package moving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
)

// keyInDoubt is the largest number of bytes that the texts of a key may have without being checked.
// PostgreSQL takes 2,704 bytes of a row in a B-tree, and an escaped text may be five times as long
// as the text.
const keyInDoubt = 500

// fits names the rows whose keys the target can't take. The source is then open again.
func (m *move) fits(ctx context.Context) error {
	var limits []engine.KeyLimit
	err := m.to.Read(ctx, "look how long keys may be", func(x engine.Rx) (err error) {
		limits, err = m.to.KeyLimits(x)
		return err
	}).Err
	if err != nil {
		return err
	}
	var named []string
	for _, limit := range limits {
		t := find(m.plan.tables, limit.Table)
		if t == nil {
			continue
		}
		if err := m.tooLong(ctx, *t, limit.Columns, &named); err != nil {
			return about(*t, err)
		}
	}
	if len(named) == 0 {
		return nil
	}
	err = m.abandon(ctx, "give the move up")
	return errors.Join(engine.Failf(engine.ErrUnsupported, "nothing was moved, and the source is open "+
		"as it was; remove these rows, or shorten what they are called",
		"no index of the target takes keys as long as those of %s", strings.Join(named, "; ")), err)
}

// tooLong asks the target about the rows with long keys.
func (m *move) tooLong(ctx context.Context, t engine.Table, columns []string, named *[]string) error {
	var lengths []string
	for _, c := range columns {
		lengths = append(lengths, "coalesce(octet_length("+engine.Quoted(c)+"), 0)")
	}
	for page, err := range pages(ctx, m.from, t,
		strings.Join(lengths, " + ")+fmt.Sprintf(" > %d", keyInDoubt), nil) {
		if err != nil {
			return err
		}
		unfit, err := m.to.Fits(ctx, t, page.rows)
		if err != nil {
			return err
		}
		for i, row := range page.rows {
			name := "row " + damage.RowName(keyOf(t, row)) + " of " + t.Name
			if unfit[i] != nil && len(*named) < mostNamed && !slices.Contains(*named, name) {
				*named = append(*named, name)
			}
		}
	}
	return nil
}
