package postgres

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/machine"
)

// serverClock names the clock of a server in the leases that run on it. A new primary has its own
// clock, which is set by the same time servers. A lease may so end a little early or late; its
// epoch protects against that.
const serverClock = "server"

// sqlClock goes before a new session's first statements, and is answered with them. It also asks whether the
// server's session is a new one.
const sqlClock = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint,
	coalesce(current_setting('selvedge.schema', true), ''), pg_backend_pid(); `

// A clock is the server's clock as this process knows it: how far it was ahead of the machine's
// own when the server was last asked. It is behind by at most the time that the answer took, and
// by the drift since.
type clock struct{ ahead atomic.Int64 }

// was records the time that the server reported a moment ago.
func (c *clock) was(nanos int64) { c.ahead.Store(nanos - int64(machine.ReadBootTime().Since)) }

// now is the server's time, in nanoseconds since 1970, as far as this process knows it.
func (c *clock) now() time.Duration {
	return machine.ReadBootTime().Since + time.Duration(c.ahead.Load())
}

// begin asks for the time, and applies the session's settings. It returns the last value that they return.
func (c *clock) begin(ctx context.Context, w *wire, settings string) (last string, err error) {
	results, err := w.conn.Exec(ctx, sqlClock+settings).ReadAll()
	if err := w.lost(ctx, err); err != nil {
		return "", err
	}
	first := results[0].Rows[0]
	if len(first[1]) > 0 {
		return "", engine.Failf(engine.ErrUnsupported, hintPooler,
			"the connection has the settings of another session")
	}
	w.pooled = string(first[2]) != strconv.FormatUint(uint64(w.conn.PID()), 10)
	nanos, err := strconv.ParseInt(string(first[0]), 10, 64)
	if err == nil {
		c.was(nanos)
	}
	return string(results[len(results)-1].Rows[0][0]), err
}

// Clock is the server's. Leases of all hosts are judged by it.
func (e *Engine) Clock() machine.BootTime {
	return machine.BootTime{Boot: serverClock, Since: e.clock.now()}
}

// OneMachine reports whether the address has hosts set to one.
func (e *Engine) OneMachine() bool { return e.address.oneMachine }
