package moving

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
)

// mostNamed is how many differing rows are named at most.
const mostNamed = 100

// compare reads every row of both databases, and fails if any differs.
func (m *move) compare(ctx context.Context) error {
	if err := m.step(ctx, Compare); err != nil {
		return err
	}
	tables := slices.Clone(m.plan.tables)
	slices.SortFunc(tables, func(a, b engine.Table) int { return cmp.Compare(a.Name, b.Name) })
	p := engine.Progress{Step: string(Compare)}
	for _, c := range m.counts {
		p.Total += c.Read
	}
	here, there := newDigest(), newDigest()
	for _, t := range tables {
		if err := m.compareTable(ctx, t, here, there, &p); err != nil {
			return about(t, err)
		}
		m.report.Tables = append(m.report.Tables, *m.counts[t.Name])
	}
	m.report.Rows, m.report.SHA256, m.report.ToSHA256 = here.rows, here.sum(), there.sum()
	if err := m.compareCounters(ctx); err != nil {
		return err
	}
	var differing int64
	for _, c := range m.counts {
		differing += c.Differs
	}
	if len(m.report.Differs) > 0 || m.report.SHA256 != m.report.ToSHA256 {
		return engine.Failf(engine.ErrConflict, "nobody writes to either; undo the move with: migrate "+
			"move --abandon --to "+m.to.Path()+", and begin again",
			"what was moved is not what is there: %d rows differ", differing)
	}
	return nil
}

// compareTable reads a table of both databases in the order of its keys.
func (m *move) compareTable(ctx context.Context, t engine.Table, here, there *digest,
	p *engine.Progress,
) error {
	here.table(t)
	there.table(t)
	a, b := begin(ctx, m.from, t, here), begin(ctx, m.to, *find(m.plan.there, t.Name), there)
	defer a.stop()
	defer b.stop()
	for {
		for _, s := range []*side{a, b} {
			if err := s.next(); err != nil {
				return err
			}
		}
		if a.row == nil && b.row == nil {
			return nil
		}
		order := cmp.Compare(a.left(), b.left())
		if order == 0 {
			var err error
			if order, err = compareKeys(a.key, b.key); err != nil {
				return err
			}
		}
		switch {
		case order < 0:
			m.differs(t, a.key, "it is missing in the target")
		case order > 0:
			m.differs(t, b.key, "it is in the target alone")
		default:
			if columns := unequal(t, a.row, b.row); columns != "" {
				m.differs(t, a.key, "other values in "+columns)
			}
		}
		if order <= 0 {
			a.take()
			if p.Done++; p.Done%1000 == 0 {
				progress(ctx, *p)
			}
		}
		if order >= 0 {
			b.take()
		}
	}
}

func unequal(t engine.Table, a, b []any) string {
	var names []string
	for i, c := range t.Columns {
		if !same(a[i], b[i]) {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ", ")
}

func (m *move) differs(t engine.Table, key []any, reason string) {
	m.counts[t.Name].Differs++
	if len(m.report.Differs) < mostNamed {
		m.report.Differs = append(m.report.Differs, Difference{t.Name, damage.RowName(key), reason})
	}
}

// compareCounters checks that the target will not issue a number that the source has issued.
func (m *move) compareCounters(ctx context.Context) error {
	here, err := m.counters(ctx, m.from)
	if err != nil {
		return err
	}
	there, err := m.counters(ctx, m.to)
	if err != nil {
		return err
	}
	for _, t := range m.plan.tables {
		if last := here[t.Name]; there[t.Name] < last {
			m.differs(t, []any{last}, "the target would give numbers anew that were given")
		}
	}
	return nil
}

// A side is one of the two tables of a comparison.
type side struct {
	table  engine.Table
	digest *digest
	pull   func() (page, error, bool)
	stop   func()
	rows   [][]any
	ended  bool

	row []any // the current row; nil if no row is left
	key []any
}

func begin(ctx context.Context, d engine.Movable, t engine.Table, into *digest) *side {
	s := &side{table: t, digest: into}
	s.pull, s.stop = iter.Pull2(pages(ctx, d, t, "", nil))
	return s
}

// left returns 1 if no row is left, which sorts the other side's rows first.
func (s *side) left() int {
	if s.row == nil {
		return 1
	}
	return 0
}

// next goes to the next row, if the current one was taken.
func (s *side) next() error {
	if s.row != nil || s.ended {
		return nil
	}
	if len(s.rows) == 0 {
		p, err, more := s.pull()
		if err != nil {
			return err
		}
		if s.rows, s.ended = p.rows, !more; s.ended {
			return nil
		}
	}
	before := s.key
	s.row, s.rows = s.rows[0], s.rows[1:]
	s.key = keyOf(s.table, s.row)
	if before != nil {
		order, err := compareKeys(before, s.key)
		if err != nil {
			return err
		}
		if order >= 0 {
			return engine.Failf(engine.ErrCorrupt, "no key that the stores make does; give the source "+
				"back with: migrate move --abandon --to TARGET, and rename or remove these rows with "+
				"SQL", "row %s comes behind %s, and engines sort such keys in different ways",
				damage.RowName(s.key), damage.RowName(before))
		}
	}
	s.digest.row(s.row)
	return nil
}

func (s *side) take() { s.row = nil }
