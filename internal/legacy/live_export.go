package legacy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"selvedge/db"
	"selvedge/internal/live"
)

// Export writes dir/runs/SESSION.json: a run that came from a file goes into the file of that session, any other into that
// of its own session.
func (Live) Export(ctx context.Context, d *db.DB, scope, dir string, o Options) (Report, error) {
	x := &liveImport{d: d, store: live.Table{Scope: scope}, scope: scope, o: o}
	dir, err := filepath.Abs(dir)
	x.root, x.report = dir, newReport("live", scope, dir)
	if err != nil {
		return x.report, err
	}
	if err := emptyFolder(dir); err != nil {
		return x.report, err
	}
	if err := os.Mkdir(filepath.Join(dir, "runs"), 0o700); err != nil {
		return x.report, err
	}
	var runs []live.Placed
	err = d.Read(ctx, "begin export", func(rx *db.Rx) (err error) {
		runs, err = x.store.Placed(rx)
		return err
	})
	if err != nil {
		return x.report, err
	}
	for _, f := range x.place(runs) {
		if ctx.Err() != nil {
			return x.report, interrupted(ctx, "export", ctx.Err())
		}
		if err := x.write(ctx, f); err != nil {
			return x.report, fmt.Errorf("export %s: %w", f.path, err)
		}
	}
	return x.report, nil
}

// A liveTarget is a file of an export.
type liveTarget struct {
	path    string
	session string // whose it is
	runs    []live.Placed
}

// place finds the file of every run. Files come in the order of their first runs, records in that of the file they came
// from, then oldest first.
func (x *liveImport) place(runs []live.Placed) []*liveTarget {
	var list []*liveTarget
	byPath := map[string]*liveTarget{}
	add := func(p live.Placed, path, session string) {
		f := byPath[path]
		if f == nil {
			f = &liveTarget{path: path, session: session}
			byPath[path] = f
			list = append(list, f)
		}
		if f.session != session {
			x.report.remark(&x.report.LeftOut, path, fmt.Sprintf("a run of session %q: the file's name is also that of session %q, which has it", session, f.session))
			return
		}
		f.runs = append(f.runs, p)
	}
	// Those that came from files first: a file is theirs.
	for _, p := range runs {
		if p.Source == 0 {
			continue
		}
		stem, _ := liveSession(string(p.Path))
		session := stem
		if filepath.Dir(string(p.Path)) == "runs" && live.SafeName(p.SessionID) == stem {
			session = p.SessionID
		}
		path := "runs/" + live.SafeName(stem) + sessionExtension
		if f := byPath[path]; f != nil && f.session != session && filepath.Dir(string(p.Path)) == "runs" {
			session = f.session // whatever session a record names: it came from this file
		}
		add(p, path, session)
	}
	for _, p := range runs {
		if p.Source == 0 {
			add(p, "runs/"+live.SafeName(p.SessionID)+sessionExtension, p.SessionID)
		}
	}
	for _, f := range list {
		slices.SortStableFunc(f.runs, func(a, b live.Placed) int {
			if a.Source == 0 || b.Source == 0 {
				return int(min(b.Source, 1) - min(a.Source, 1))
			}
			return a.Position - b.Position
		})
	}
	return list
}

// write makes one file, a record at a time.
func (x *liveImport) write(ctx context.Context, target *liveTarget) (err error) {
	name := filepath.Base(target.path)
	if len(name) > maxName {
		x.report.remark(&x.report.LeftOut, target.path, fmt.Sprintf("session %q: its file's name is too long", target.session))
		return nil
	}
	f, err := os.OpenFile(below(x.root, target.path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var w live.FileWriter
	var out []byte
	for _, p := range target.runs {
		var text []byte
		var verbatim, found bool
		err := x.d.Read(ctx, "export live run", func(rx *db.Rx) (err error) {
			text, verbatim, found, err = x.store.RecordText(rx, p.Key)
			return err
		})
		if err != nil {
			return err
		}
		if !found {
			continue // removed meanwhile
		}
		out = w.Record(out[:0], text, verbatim)
		if _, err := f.Write(out); err != nil {
			return err
		}
		x.report.Files.Bytes += int64(len(out))
		x.report.count(kindRun, func(c *Count) { c.Read++; c.New++ })
	}
	x.report.Files.Found++
	x.report.Files.New++
	x.at.Files++
	x.at.Bytes = x.report.Files.Bytes
	if x.o.Progress != nil {
		x.o.Progress(x.at)
	}
	_, err = f.Write(w.End(nil))
	return err
}
