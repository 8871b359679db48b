package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/engine"
)

// DefaultSchema is where the tables are when the address names no search_path.
const DefaultSchema = "selvedge"

const (
	connectPatience = 5 * time.Second // for one host
	laterAnswers    = 2 * time.Second // for the other hosts to answer, after the first one did
)

// commitPatience is how long a COMMIT may go without an answer. Then the server is asked about
// it, and unless it works on it the COMMIT is given up and settled. Tests lengthen it.
var commitPatience = 12 * time.Second

// closePatience is how long the end of a session, or of an owner, waits for the server's answer.
// Tests lengthen it.
var closePatience = 2 * time.Second

// An Address names the hosts of a server, and the schema in its database.
type Address struct {
	config *pgconn.Config
	schema string
	ttl    time.Duration // of owners

	settings    string // a statement that a session begins with
	lockTimeout string // what SET takes for the lock_timeout of a session: DEFAULT if the address has none

	oneMachine bool // all programs run on it
	hosts      []host

	// withoutWAL: the only host allows no functions of the WAL, as some managed services do.
	withoutWAL atomic.Bool
}

// ttlSetting is the setting of an address that says how long a process may be silent before it
// counts as dead. All addresses of one database must have the same value.
const ttlSetting = "selvedge.owner_ttl"

// hostsSetting is "one" if all programs that use the database run on one machine, where their
// pids tell which process is dead.
const hostsSetting = "selvedge.hosts"

// A host is one server of an address. Its configuration has the ways to connect to it, such as with
// and without TLS.
type host struct {
	name   string
	config *pgconn.Config
	hooks  Hooks
}

// Hooks replace parts of an address in each new connection. Nil leaves them as they are.
type Hooks struct {
	Password func(ctx context.Context) (string, error)
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	TLS      *tls.Config
}

// hook makes later connections use the hooks.
func (a *Address) hook(hooks Hooks) {
	for i := range a.hosts {
		h := &a.hosts[i]
		h.hooks = hooks
		if hooks.TLS == nil || strings.HasPrefix(h.config.Host, "/") { // a socket has no TLS
			continue
		}
		h.config.TLSConfig, h.config.Fallbacks = hooks.TLS.Clone(), nil
		if h.config.TLSConfig.ServerName == "" {
			h.config.TLSConfig.ServerName = h.config.Host
		}
	}
}

// ParseAddress reads postgres://user@host:port,host:port/database?search_path=schema, with libpq's
// other settings and environment variables.
func ParseAddress(text string) (*Address, error) {
	if scheme, rest, found := strings.Cut(text, "://"); found {
		text = strings.ToLower(scheme) + "://" + rest // pgconn takes a scheme in capitals for a file
	}
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the address of the server: %s", engine.ErrInvalid, withoutAddress(err))
	}
	a := &Address{config: config, schema: DefaultSchema, ttl: DefaultTTL}
	if path, ok := config.RuntimeParams["search_path"]; ok {
		name, _, _ := strings.Cut(path, ",")
		a.schema = strings.Trim(strings.TrimSpace(name), `"`)
	}
	if a.schema == "" || len(a.schema) > 63 || strings.ContainsAny(a.schema, "\x00\"") ||
		strings.HasPrefix(a.schema, "pg_") {
		return nil, fmt.Errorf("%w: search_path names the schema %q: a name of up to 63 bytes, without quotes, "+
			"that does not begin with pg_", engine.ErrInvalid, a.schema)
	}
	if text, ok := config.RuntimeParams[ttlSetting]; ok {
		delete(config.RuntimeParams, ttlSetting)
		if a.ttl, err = time.ParseDuration(text); err != nil || a.ttl < shortestTTL || a.ttl > time.Hour {
			return nil, fmt.Errorf("%w: %s is %q: a time from %v to %v", engine.ErrInvalid, ttlSetting, text,
				shortestTTL, time.Hour)
		}
	}
	if text, ok := config.RuntimeParams[hostsSetting]; ok {
		delete(config.RuntimeParams, hostsSetting)
		if a.oneMachine = text == "one"; !a.oneMachine && text != "many" {
			return nil, fmt.Errorf("%w: %s is %q: one or many", engine.ErrInvalid, hostsSetting, text)
		}
	}
	// Defaults of a role or a database for these settings would change what statements mean.
	for key, value := range map[string]string{
		"search_path": a.quotedSchema(), "TimeZone": "UTC", "client_encoding": "UTF8",
		"standard_conforming_strings": "on", "jit": "off",
		"default_transaction_read_only": "off", "default_transaction_isolation": "read committed",
		"DateStyle":                      "ISO",
		"default_transaction_deferrable": "off", "IntervalStyle": "postgres", "extra_float_digits": "1",
		"transform_null_equals": "off", "bytea_output": "hex",
		// A cancelled wait for the standbys is a warning; see settle.go.
		"client_min_messages": "warning",
		// A process that was cut off or stopped in the middle of a transaction blocks others no
		// longer than this. It can't continue the transaction after others may have taken what it
		// held.
		"idle_in_transaction_session_timeout": strconv.FormatInt(min(30*time.Second, a.ttl/2).Milliseconds(), 10),
		"tcp_keepalives_idle":                 "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
	} {
		maps.DeleteFunc(config.RuntimeParams, func(given, _ string) bool { return strings.EqualFold(given, key) })
		config.RuntimeParams[key] = value
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = defaultProgram
	}
	a.lockTimeout = "DEFAULT"
	for given, value := range config.RuntimeParams {
		if strings.EqualFold(given, "lock_timeout") {
			a.lockTimeout = literal(value)
		}
	}
	a.settings = settingsOf(config.RuntimeParams)
	if config.ConnectTimeout == 0 || config.ConnectTimeout > connectPatience {
		config.ConnectTimeout = connectPatience
	}
	config.ValidateConnect = nil // which host is the primary is asked below
	first := &pgconn.FallbackConfig{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}
	for _, way := range append([]*pgconn.FallbackConfig{first}, config.Fallbacks...) {
		name := net.JoinHostPort(way.Host, strconv.Itoa(int(way.Port)))
		if at := slices.IndexFunc(a.hosts, func(h host) bool { return h.name == name }); at >= 0 {
			of := a.hosts[at].config
			of.Fallbacks = append(of.Fallbacks, way)
			continue
		}
		of := config.Copy()
		of.Host, of.Port, of.TLSConfig, of.Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		a.hosts = append(a.hosts, host{name: name, config: of})
	}
	return a, nil
}

// startup are the settings in a connection's startup message. All others are set by a later
// statement: a pooler keeps for its clients only the settings that it knows, which are these, and
// refuses others in the startup message.
var startup = []string{
	"application_name", "client_encoding", "datestyle", "timezone",
	"standard_conforming_strings", "options",
}

// settingsOf removes the other settings from params, and returns the statements that set them.
func settingsOf(params map[string]string) string {
	var sets []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(startup, strings.ToLower(name)) {
			sets = append(sets, "set_config("+literal(name)+", "+literal(params[name])+", false)")
			delete(params, name)
		}
	}
	// A session of a replica fires no trigger. Not every role may set that back, or needs to.
	sets = append(sets, "CASE current_setting('session_replication_role') WHEN 'replica' THEN "+
		"set_config('session_replication_role', 'origin', false) END")
	// In a transaction of the role's own making it may wait for all serialisable ones
	// (default_transaction_deferrable), or be refused.
	return "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT " + strings.Join(sets, ", ") + "; COMMIT; "
}

// withoutAddress returns pgconn's message about an address, without the address: pgconn leaves a
// password out, but not one with an @ in it.
func withoutAddress(err error) string {
	text := err.Error()
	if at := strings.LastIndex(text, "`: "); at >= 0 {
		return text[at+len("`: "):]
	}
	return "it can't be read"
}

func (a *Address) quotedSchema() string { return `"` + a.schema + `"` }

// String is the address without its secrets, the same for the same place.
func (a *Address) String() string {
	var names, hosts, ports []string
	sockets := false // folders with sockets
	for _, h := range a.hosts {
		names, hosts, ports = append(names, h.name), append(hosts, h.config.Host),
			append(ports, strconv.Itoa(int(h.config.Port)))
		sockets = sockets || strings.HasPrefix(h.config.Host, "/")
	}
	u := url.URL{
		Scheme: "postgres", User: url.User(a.config.User), Host: strings.Join(names, ","),
		Path: "/" + a.config.Database,
	}
	if sockets {
		u.Host = ""
		u.RawQuery = "host=" + url.QueryEscape(strings.Join(hosts, ",")) + "&port=" + strings.Join(ports, ",") + "&"
	}
	u.RawQuery += "search_path=" + url.QueryEscape(a.schema)
	if a.ttl != DefaultTTL {
		u.RawQuery += "&" + ttlSetting + "=" + a.ttl.String()
	}
	if a.oneMachine {
		u.RawQuery += "&" + hostsSetting + "=one"
	}
	return u.String()
}

// errStray: the first answer on a connection belongs to a statement that was not sent there.
var errStray = fmt.Errorf("%w: it gave an answer to something else", errConnection)

// defaultProgram is the name of the sessions of a program whose address gives none.
const defaultProgram = "selvedge"

const (
	// sqlTimeline returns the timeline of a primary, and an empty text on a standby, which writes none.
	sqlTimeline = `SELECT CASE WHEN pg_is_in_recovery() THEN ''
	ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END`
	// sqlIsPrimary is sqlTimeline without functions of the WAL. All primaries have one timeline.
	sqlIsPrimary = `SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE '00000001' END`
)

// timeline returns the query for the timeline of a primary.
func (a *Address) timeline() string {
	if a.withoutWAL.Load() {
		return sqlIsPrimary
	}
	return sqlTimeline
}

// errStandby: the host answers, but is not the primary. It is asked nothing more, as over a closed
// connection.
var errStandby = standby{}

type standby struct{}

func (standby) Error() string { return "the server is a standby" }

func (standby) Unwrap() error { return errConnection }

// errReplaced: the host claims to be the primary, but another host has been the primary since.
var errReplaced = fmt.Errorf("%w: the server was replaced as the primary, or its cluster was set up anew: "+
	"then open the database again", errConnection)

// connect returns a connection to the primary. It asks all hosts. Of those that claim to be the
// primary, it takes the one with the highest timeline: a primary that was replaced without
// knowing it has a lower one. Once a host has the highest known timeline, connect stops waiting
// for the others.
func (s *scout) connect(ctx context.Context) (*wire, error) {
	ctx, cancel := patient(ctx, connectPatience)
	defer cancel()
	hosts := s.address.hosts
	type answer struct {
		wire *wire
		err  error
	}
	answers := make(chan answer, len(hosts))
	for _, h := range hosts {
		go func() {
			w, err := h.connect(ctx, s.address)
			answers <- answer{w, err}
		}()
	}
	var best *wire
	var failed unreachedErrors
	var enough <-chan time.Time
	left := len(hosts)
	for known := s.known(); left > 0 && (best == nil || known == "" || best.line.timeline < known); left-- {
		select {
		case got := <-answers:
			switch {
			case got.err != nil:
				failed = append(failed, got.err)
			case best == nil || got.wire.line.timeline > best.line.timeline:
				got.wire, best = best, got.wire
			}
			if got.wire != nil {
				_ = got.wire.Close()
			}
			if enough == nil {
				clock := time.NewTimer(laterAnswers)
				defer clock.Stop()
				enough = clock.C
			}
			continue
		case <-enough:
		}
		break
	}
	if left > 0 {
		cancel()
		go func() { // hosts that answer now are too late
			for range left {
				if late := <-answers; late.wire != nil {
					_ = late.wire.Close()
				}
			}
		}()
	}
	switch {
	case best == nil && len(failed) == 1:
		return nil, failed[0]
	case best == nil:
		return nil, failed
	case !s.saw(best.line.timeline):
		return nil, errors.Join(errReplaced, best.Close())
	}
	best.leave = s.add(best.line)
	return best, nil
}

// connect returns a connection to this host if it is the primary. It drops a connection that
// begins with a stray answer, and tries another. If the only host refuses the functions of the WAL,
// it does without them from then on.
func (h host) connect(ctx context.Context, a *Address) (w *wire, err error) {
	for range 5 {
		without := a.withoutWAL.Load()
		w, err = h.connectOnce(ctx, a)
		if isRefused(err) && len(a.hosts) == 1 && !without {
			a.withoutWAL.Store(true)
			if w, err = h.connectOnce(ctx, a); err != nil {
				a.withoutWAL.Store(false)
			}
		}
		if !errors.Is(err, errStray) {
			break
		}
	}
	return w, err
}

func (h host) connectOnce(ctx context.Context, a *Address) (*wire, error) {
	w, err := h.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err = newEnough(w.conn.ParameterStatus("server_version")); err == nil {
		w.line.timeline, err = w.primaryOf(ctx, a.settings, a.timeline())
	}
	if err == nil && w.line.timeline == "" {
		err = fmt.Errorf("%s: %w", h.name, errStandby)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// newEnough refuses a server older than oldestServer. version is as servers report it: 14.2, or
// 17beta1.
func newEnough(version string) error {
	end := strings.IndexFunc(version, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(version)
	}
	if major, err := strconv.Atoi(version[:end]); err == nil && major < oldestServer {
		return fmt.Errorf("%w: the server is of version %s, and the oldest that is supported is %d",
			engine.ErrUnsupported, version, oldestServer)
	}
	return nil // or it does not report one
}

// primaryOf returns the timeline of which the server is the primary; "" for a standby. The
// message runs first before it. The query has a transaction that never waits, whatever the role's
// defaults are; this covers a scout's connection too, which sets no settings first.
func (w *wire) primaryOf(ctx context.Context, first, query string) (timeline string, err error) {
	got, err := w.conn.Exec(ctx, first+"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "+query).ReadAll()
	if err != nil {
		return "", w.lost(ctx, err)
	}
	last := got[len(got)-1]
	// Now and then PgBouncer 1.18 passes on the answer to its own SET.
	if first != "" && got[0].CommandTag.String() != "BEGIN" || len(last.Rows) != 1 {
		return "", errStray
	}
	return string(last.Rows[0][0]), nil
}

// dial returns a connection to this host.
func (h host) dial(ctx context.Context) (*wire, error) {
	w := &wire{prepared: map[string]*prepared{}, ctx: background}
	config := h.config.Copy()
	// When a connection breaks, pgconn opens another one to ask the server to cancel the statement.
	// If that is a COMMIT that waits for its standbys, the server then reports it as done. So an
	// established connection never dials again, except to end its read.
	var last atomic.Pointer[line] // of the ways that were tried, the one that connected
	dial := h.hooks.Dial
	if dial != nil { // it gets the host's name
		config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	} else {
		dial = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 5 * time.Second,
			Interval: 2 * time.Second, Count: 4,
		}, Control: limitRetries}).DialContext
	}
	if h.hooks.Password != nil {
		var err error
		if config.Password, err = h.hooks.Password(ctx); err != nil {
			return nil, fmt.Errorf("the password of a new connection: %w", err)
		}
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l := last.Load(); w.sealed.Load() || l != nil && l.ended.Load() {
			return nil, errConnection
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l := &line{Conn: conn, host: h.name}
		last.Store(l)
		return l, nil
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			w.warned = n
		}
	}
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { w.told = append(w.told, n) }
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, notReached(ctx, h.name, err)
	}
	w.conn, w.line = conn, last.Load()
	w.mayDial(false)
	return w, nil
}
