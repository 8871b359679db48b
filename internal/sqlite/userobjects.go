package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"selvedge/internal/engine"
)

// userObjects are tables, views, triggers and indexes that users have made in the file. A migration
// leaves their tables alone. It must drop their views and triggers, since SQLite refuses to rename
// a table while any of them does not fit, and makes them again afterwards as they were; indexes and
// triggers that went with a rebuilt table are made again.
type userObjects struct {
	session *session
	objects []object // the views first, since a trigger may be on one
	fitted  map[object]bool
}

// userObjectsAmong returns the objects that no program of ours made. ours are the objects of the
// file's schema version, and made the names of the views that were made with it.
func userObjectsAmong(s *session, there, ours []object, made []string) *userObjects {
	g := &userObjects{session: s, fitted: map[object]bool{}}
	var others []object
	for _, o := range there {
		switch {
		case o.Type == "table", o.Type == "index" && o.SQL == "", isPrograms(o, ours, made):
		case o.Type == "view":
			g.objects = append(g.objects, o)
		default:
			others = append(others, o)
		}
	}
	g.objects = append(g.objects, others...)
	for _, o := range g.objects {
		g.fitted[o] = g.fits(o) == nil
	}
	return g
}

// isPrograms reports whether a program made the object.
func isPrograms(o object, ours []object, made []string) bool {
	if o.Type == "view" {
		return slices.ContainsFunc(made, func(name string) bool { return strings.EqualFold(name, o.Name) })
	}
	return isOneOf(ours, o)
}

func isOneOf(list []object, o object) bool {
	return slices.ContainsFunc(list, func(other object) bool {
		return other.Type == o.Type && strings.EqualFold(other.Name, o.Name)
	})
}

// inTheWay returns an error that lists users' objects with names that the next schema needs.
func inTheWay(there, ours, next []object, made []string) error {
	var names []string
	for _, o := range there {
		if o.Name == "goose_db_version" || isPrograms(o, ours, made) {
			continue
		}
		if slices.ContainsFunc(next, func(n object) bool {
			return strings.EqualFold(n.Name, o.Name) && (n.Type == "trigger") == (o.Type == "trigger")
		}) {
			names = append(names, fmt.Sprintf("%s %q", o.Type, o.Name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return engine.Failf(engine.ErrConflict,
		"rename what you made, and migrate again: the file is as it was",
		"the new schema needs names that are taken: %s", strings.Join(names, ", "))
}

// aside drops the views and triggers.
func (g *userObjects) aside() error {
	for _, o := range slices.Backward(g.objects) {
		if o.Type == "index" {
			continue
		}
		if _, err := g.session.exec("DROP " + o.Type + " " + engine.Quoted(o.Name)); err != nil {
			return err
		}
	}
	return nil
}

// back makes the missing ones again. The error names those that compiled before and no longer do.
func (g *userObjects) back() error {
	var there []object
	if err := g.session.Select(&there, sqlObjects); err != nil {
		return err
	}
	var misfits []string
	misfit := func(o object, err error) {
		if err != nil {
			misfits = append(misfits, fmt.Sprintf("%s %q: %v", o.Type, o.Name, err))
		}
	}
	for _, o := range g.objects {
		if !isOneOf(there, o) {
			_, err := g.session.conn.ExecContext(background, o.SQL)
			misfit(o, err)
		}
	}
	for _, o := range g.objects {
		if len(misfits) == 0 && g.fitted[o] {
			misfit(o, g.fits(o))
		}
	}
	if len(misfits) == 0 {
		return nil
	}
	return engine.Failf(engine.ErrConflict,
		"change or drop what you made, and migrate again: the file is as it was",
		"the new schema does not fit %s", strings.Join(misfits, "; "))
}

// fits compiles statements that use the object.
func (g *userObjects) fits(o object) error {
	var statements []string
	switch o.Type {
	case "view":
		statements = []string{"SELECT * FROM " + engine.Quoted(o.Name)}
	case "trigger":
		var columns []string
		if err := g.session.Select(&columns, "SELECT name FROM pragma_table_info(?)", o.Table); err != nil {
			return err
		}
		var same []string
		for _, c := range columns {
			same = append(same, engine.Quoted(c)+"="+engine.Quoted(c))
		}
		t := engine.Quoted(o.Table)
		statements = []string{
			"INSERT INTO " + t + " DEFAULT VALUES", "UPDATE " + t + " SET " + strings.Join(same, ","),
			"DELETE FROM " + t,
		}
	}
	for _, text := range statements {
		st, err := g.session.conn.PreparexContext(background, text)
		if err != nil {
			return err
		}
		if err := st.Close(); err != nil {
			return err
		}
	}
	return nil
}
