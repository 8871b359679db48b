package search

import (
	"context"
	"errors"
	"strings"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/txn"
)

// A schema is the index of a server: tables in a schema of their own, beside that of the database, which a
// move would take with it.
type schema struct {
	d      *db.DB // that writes
	opened bool   // by openSchema
	name   string // quoted, with a dot
}

const (
	sqlSchema = `SELECT current_schema() || '_search_' || ?`
	sqlThere  = `SELECT count(*) FROM pg_namespace WHERE nspname = ?`
	// sqlMine are the indexes, but for no schema of tables that is called alike.
	sqlMine = `SELECT nspname FROM pg_namespace WHERE starts_with(nspname, current_schema() || '_search_')
	AND substr(nspname, length(current_schema() || '_search_') + 1) ~ '^[0-9]+(_output)?$'
	AND EXISTS (SELECT 1 FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
		WHERE c.relnamespace = pg_namespace.oid AND c.relname = 'words' AND a.attname = 'lexemes')
ORDER BY 1`
	sqlOf = `SELECT concat_ws(' ', created_at, generation) FROM selvedge_file`
	// sqlAlone lets one process at a time change the index.
	sqlAlone = `SELECT count(pg_advisory_xact_lock(hashtextextended('selvedge search ' || ?, 0)))`
)

var sqlMakeSchema = []string{
	`CREATE TABLE index.settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)`,
	`CREATE TABLE index.heads (store TEXT NOT NULL, key BIGINT NOT NULL, seen BIGINT NOT NULL,
	scope TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (store, key))`,
	`CREATE TABLE index.texts (id BIGINT PRIMARY KEY, store TEXT NOT NULL,
	key BIGINT NOT NULL, place BIGINT NOT NULL, kind TEXT NOT NULL, at BIGINT)`,
	`CREATE INDEX texts_by_thing ON index.texts (store, key)`,
	`CREATE TABLE index.words (id BIGINT PRIMARY KEY, text TEXT NOT NULL, folded TEXT NOT NULL,
	lexemes TSVECTOR NOT NULL)`,
	`CREATE INDEX words_by_lexeme ON index.words USING gin (lexemes)`,
}

// longestName is the most bytes of a name on a server.
const longestName = 63

func nameOf(rx *db.Rx, o Options) (name string, err error) {
	suffix := version
	if o.Output {
		suffix += "_output"
	}
	if _, err = rx.Find(&name, sqlSchema, suffix); err == nil && len(name) > longestName {
		err = txn.Invalid("keep the tables in a schema with a shorter name",
			"the schema of the index would be %q, which is too long", name)
	}
	return name, err
}

func schemaExists(ctx context.Context, d *db.DB, o Options) (there bool, err error) {
	err = d.Read(ctx, "look for the index", func(rx *db.Rx) error {
		name, err := nameOf(rx, o)
		if err == nil {
			there, err = isThere(rx, name)
		}
		return err
	})
	return there, err
}

func isThere(rx *db.Rx, name string) (bool, error) {
	n := 0
	_, err := rx.Find(&n, sqlThere, name)
	return n > 0, err
}

func openSchema(ctx context.Context, d *db.DB, o *Options) (s *schema, err error) {
	s = &schema{d: d}
	if d.Store().ReadOnly {
		if s.d, err = db.Open(ctx, d.Path(), db.Options{MustExist: true}); err != nil {
			return nil, err
		}
		s.opened = true
	}
	err = s.d.Write(ctx, "make the index", func(tx *db.Tx) error {
		name, err := nameOf(&tx.Rx, *o)
		if err == nil {
			_, err = tx.Find(new(int), sqlAlone, name)
		}
		if err != nil {
			return err
		}
		s.name = engine.Quoted(name) + "."
		there, err := isThere(&tx.Rx, name)
		if err == nil && !there {
			_, err = tx.Exec("CREATE SCHEMA " + engine.Quoted(name))
			for _, statement := range sqlMakeSchema {
				if err == nil {
					_, err = s.on(tx).Exec(statement)
				}
			}
		}
		var of string // a schema that was dropped and made again is another one
		if err == nil {
			_, err = tx.Find(&of, sqlOf)
		}
		if err != nil {
			return err
		}
		return keep(s.on(tx), o, of)
	})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// dropSchemas drops the indexes of all versions.
func dropSchemas(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, "delete the index", func(tx *db.Tx) error {
		var names []string
		if err := tx.Select(&names, sqlMine); err != nil {
			return err
		}
		for _, name := range names {
			if _, err := tx.Exec("DROP SCHEMA " + engine.Quoted(name) + " CASCADE"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *schema) close() error {
	if !s.opened {
		return nil
	}
	return s.d.Close()
}

func (s *schema) clean(context.Context) error { return nil }

func (s *schema) read(ctx context.Context, fn func(t selects) error) error {
	return s.d.Read(ctx, "search", func(rx *db.Rx) error { return fn(selecting{rx, s.name}) })
}

func (s *schema) write(ctx context.Context, why string, fn func(t tables) error) error {
	return s.d.Write(ctx, why, func(tx *db.Tx) error {
		if _, err := tx.Find(new(int), sqlAlone, strings.Trim(s.name, `".`)); err != nil {
			return err
		}
		return fn(s.on(tx))
	})
}

func (s *schema) on(tx *db.Tx) tables { return onServer{selecting{&tx.Rx, s.name}, tx} }

type selecting struct {
	rx   *db.Rx
	name string
}

func (s selecting) Select(list any, query string, args ...any) error {
	return s.rx.Select(list, strings.ReplaceAll(query, "index.", s.name), args...)
}

type onServer struct {
	selecting
	tx *db.Tx
}

func (s onServer) Exec(query string, args ...any) (int64, error) {
	return s.tx.Exec(strings.ReplaceAll(query, "index.", s.name), args...)
}

func (s *schema) words() dialect {
	return dialect{
		put: func(t tables, id int64, words string) error {
			lexemes, folded := lexemesOf(words)
			_, err := t.Exec(`INSERT INTO index.words (id, text, folded, lexemes)
VALUES (?, ?, ?, array_to_tsvector(string_to_array(?, ' ')))`, id, words, folded, lexemes)
			return err
		},
		forget: `DELETE FROM index.words WHERE id IN (SELECT id FROM index.texts WHERE store = ? AND key = ?)`,
		find:   onServerFind, best: "ts_rank(w.lexemes, CAST(?1 AS TSQUERY)) DESC, w.id DESC", id: "id",
	}
}

// onServerFind looks for words by the lexemes, which have an index, and for phrases in what it finds: a
// server keeps at most 256 places of a lexeme. A token has nothing that would have to be quoted.
func onServerFind(terms []term) (condition string, args []any) {
	var parts []string
	for _, t := range terms {
		var words []string
		for _, token := range tokensOf(t.text) {
			words = append(words, token.folded)
		}
		phrase := "% " + strings.Join(words, " ")
		if t.begins {
			words[len(words)-1] += "':*"
		} else {
			phrase += " "
			words[len(words)-1] += "'"
		}
		part := "'" + strings.Join(words, "' & '")
		switch {
		case len(words) > 1:
			condition, args = condition+" AND w.folded "+map[bool]string{true: "NOT "}[t.not]+"LIKE ?",
				append(args, phrase+"%")
			if t.not {
				continue
			}
		case t.not:
			part = "!" + part
		}
		parts = append(parts, part)
	}
	return "w.lexemes @@ CAST(? AS TSQUERY)" + condition, append([]any{strings.Join(parts, " & ")}, args...)
}

// mostLexemes is the most bytes of the lexemes of a text; a server takes 1 MiB.
const mostLexemes = 1_000_000

// lexemesOf returns the words of a text without repetition, and all of them, with a blank around each.
func lexemesOf(text string) (lexemes, folded string) {
	var all, once strings.Builder
	seen := map[string]bool{}
	for _, token := range tokensOf(text) {
		all.WriteString(" " + token.folded)
		if !seen[token.folded] && once.Len()+len(token.folded) < mostLexemes {
			seen[token.folded] = true
			once.WriteString(" " + token.folded)
		}
	}
	return strings.TrimPrefix(once.String(), " "), all.String() + " "
}
