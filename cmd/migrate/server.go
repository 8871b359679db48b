package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/internal/engine"
)

// onServer reports whether --db is the address of a PostgreSQL server.
func (a *app) onServer() bool { return engine.IsAddress(a.path) }

// checkPlace rejects what --db, or a flag like it, can't be. typed means that it was on the command
// line, where everybody can read a password.
func checkPlace(flag, place string, typed bool) error {
	scheme, foreign := foreignScheme(place)
	_, secret := engine.WithoutSecrets(place)
	switch {
	case place == "":
		return usage("%s is empty", flag)
	case place == ":memory:":
		return fail(kindUsage, "name a file", "%s :memory: holds nothing once the command has ended", flag)
	case secret && typed:
		return fail(kindUsage, "leave it out, and say it in ~/.pgpass or the file that PGPASSFILE names, in "+
			"PGPASSWORD, or in a service; SELVEDGE_DB may hold it, too",
			"%s holds a password, which the machine's list of processes shows to everybody", flag)
	case foreign:
		return fail(kindUsage, "name a file, or a server as in postgres://user@host:5432/database",
			"%s is the address of nothing that this program knows: %s://", flag, scheme)
	case !engine.IsAddress(place) && misspelt(place):
		return fail(kindUsage, "write it as an address: postgres://user@host:5432/database, with other settings "+
			"behind a ?; a file of this name as ./NAME",
			"%s names neither a file nor a server", flag)
	}
	return nil
}

// foreignScheme returns the scheme of an address that this program does not know.
func foreignScheme(place string) (scheme string, foreign bool) {
	scheme, _, found := strings.Cut(place, "://")
	return scheme, found && !engine.IsAddress(place) && !strings.ContainsAny(scheme, "/.")
}

// Other spellings of the address of a server: settings as libpq, JDBC and others write them, an
// address with a slash missing, and one without its scheme, ann:word@host.
var (
	settingsOfServers = regexp.MustCompile(
		`(?i)(^|[\s;?&])(host|hostaddr|port|dbname|user|password|sslpassword|service)\s*=`)
	secretSetting = regexp.MustCompile(`(?i)password\s*=`)
	nearlyAddress = regexp.MustCompile(`(?i)^\s*postgres(ql)?:|^[^./][^@]*:[^@]*@`)
)

// misspelt reports whether a text that is no address is meant as the address of a server.
func misspelt(text string) bool {
	return settingsOfServers.MatchString(text) || nearlyAddress.MatchString(text)
}

// withoutSecrets returns a text for people, without the passwords that the command line and the
// environment hold.
func (a *app) withoutSecrets(text string) string {
	text = strings.ReplaceAll(text, a.address(), a.path)
	place := true // an id may look like an address without its scheme
	for _, word := range append([]string{os.Getenv("SELVEDGE_DB")}, a.args...) {
		names := place
		flag, value, found := strings.Cut(word, "=")
		if place = slices.Contains([]string{"--db", "--to"}, flag); strings.HasPrefix(word, "-") {
			names, word = place && found, value
		}
		if safe, secret := engine.WithoutSecrets(word); secret {
			quoted := strconv.Quote(word)
			text = strings.ReplaceAll(strings.ReplaceAll(text, word, safe), quoted[1:len(quoted)-1], safe)
		}
		if engine.IsAddress(word) {
			continue
		}
		_, foreign := foreignScheme(word)
		// SQL may hold one too
		address := (foreign || names && nearlyAddress.MatchString(word)) && strings.Contains(word, "@") &&
			!strings.ContainsAny(strings.TrimSpace(word), " \t\n")
		if address || settingsOfServers.MatchString(word) && secretSetting.MatchString(word) {
			text = strings.ReplaceAll(text, word, "…")
		}
	}
	return text
}

// place returns --db for people, absolute if it is a file.
func (a *app) place() (string, error) {
	if a.onServer() {
		safe, _ := engine.WithoutSecrets(a.path)
		return safe, nil
	}
	return absolute(a.path)
}

// nothingThere reports whether err means that the place of --db holds nothing of ours yet. We don't
// create a database that is missing on the server, and its error has a hint.
func (a *app) nothingThere(err error) bool {
	return errors.Is(err, db.ErrNotFound) && (!a.onServer() || db.Hint(err) == "")
}

// otherTools returns, by command, how to call the server's own tool for the same work.
func (a *app) otherTools() map[string]string {
	schema, address := "selvedge", libpqAddress(a.path)
	if u, err := url.Parse(a.path); err == nil {
		name, _, _ := strings.Cut(u.Query().Get("search_path"), ",")
		schema = cmp.Or(strings.Trim(strings.TrimSpace(name), `"`), schema)
	}
	dump := fmt.Sprintf("pg_dump --format=custom --schema=%s --file=FILE %s", shellWord(schema), address)
	restore := fmt.Sprintf("pg_restore --dbname=%s FILE", address)
	return map[string]string{
		"backup":  "copy it with: " + dump + "; pg_basebackup and an archive of the WAL go back to every moment",
		"restore": "into a database without the schema " + schema + ", with: " + restore,
		"compact": fmt.Sprintf("what deletions freed is used again; while nobody uses it, give it to the disk "+
			"with: psql %s --command='VACUUM (FULL, ANALYZE)'", address),
		"salvage":   "go back to a backup with: " + restore + "; pg_amcheck says what is damaged",
		"down":      "go back to a backup from before with: " + restore,
		"datasette": "Datasette shows SQLite files: bring a copy of everything into one, and give it that",
	}
}

// libpqSettings are the settings that PostgreSQL's own programs take in an address. Ours takes the
// server's settings there too.
var libpqSettings = engine.Words(`host hostaddr port user dbname service passfile application_name
	connect_timeout target_session_attrs options channel_binding gssencmode krbsrvname keepalives keepalives_idle
	keepalives_interval keepalives_count sslmode sslrootcert sslcert sslkey sslcrl sslsni
	ssl_min_protocol_version ssl_max_protocol_version`)

// libpqAddress returns an address as a shell word for PostgreSQL's own programs, without passwords.
func libpqAddress(address string) string {
	safe, _ := engine.WithoutSecrets(address)
	address, settings, _ := strings.Cut(safe, "?")
	kept := slices.DeleteFunc(strings.Split(settings, "&"), func(setting string) bool {
		key, _, _ := strings.Cut(setting, "=")
		return !libpqSettings[key]
	})
	if len(kept) > 0 {
		address += "?" + strings.Join(kept, "&")
	}
	return shellWord(address)
}

// createdb returns the command that creates the database of --db; "" if the address does not name
// it.
func (a *app) createdb() string {
	safe, _ := engine.WithoutSecrets(a.path)
	u, err := url.Parse(safe)
	if err != nil || len(u.Path) < 2 {
		return ""
	}
	name := u.Path[1:]
	u.Path = "/postgres"
	return "createdb --maintenance-db=" + libpqAddress(u.String()) + " " + shellWord(name)
}

// opening limits the wait for a server to --wait. A file has its own limit.
func (a *app) opening(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.wait == 0 || !a.onServer() {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, a.wait, fmt.Errorf("--wait %v passed", a.wait))
}

// address returns --db for opening it. For a server it adds limits that the server itself keeps,
// also when this program is killed: --wait for the wait for each lock, and query's --timeout for a
// statement.
func (a *app) address() string {
	address := a.path
	if !a.onServer() {
		return address
	}
	bound := func(setting string, limit time.Duration) {
		join := "?"
		if strings.Contains(address, "?") {
			join = "&"
		}
		if limit != 0 {
			address += fmt.Sprintf("%s%s=%d", join, setting, max(1, limit.Milliseconds()))
		}
	}
	bound("lock_timeout", a.wait)
	bound("statement_timeout", a.timeout)
	return address
}

// checkServer rejects on a server the commands that are only for files.
func (a *app) checkServer() error {
	if tool := a.otherTools()[a.op()]; tool != "" {
		return fail(kindUnsupported, tool, "%s is for files, and --db is the address of a server", a.op())
	}
	return nil
}
