package postgres

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"selvedge/internal/machine"
)

// serverClock names the clock of a server in the leases that run on it. A primary that takes over
// goes on with its own, which is set by the same time servers: what ends a lease a little early or
// late, its epoch answers for.
const serverClock = "server"

// sqlClock goes before what else a new session asks for, and is answered with it.
const sqlClock = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint; `

// A clock is the server's, as this process knows it: by how much it was ahead of the machine's own
// when the server was asked last. It is behind by the time that the answer took, at most, and by
// what the two have drifted apart since.
type clock struct{ ahead atomic.Int64 }

// was says what the server's clock was when it was asked, a moment ago.
func (c *clock) was(nanos int64) { c.ahead.Store(nanos - int64(machine.ReadBootTime().Since)) }

// now is the server's time, in nanoseconds since 1970, as far as this process knows it.
func (c *clock) now() time.Duration {
	return machine.ReadBootTime().Since + time.Duration(c.ahead.Load())
}

// begin asks for the time, and has the session take its settings.
func (c *clock) begin(ctx context.Context, w *wire, settings string) error {
	results, err := w.conn.Exec(ctx, sqlClock+settings).ReadAll()
	if err := w.lost(ctx, err); err != nil {
		return err
	}
	nanos, err := strconv.ParseInt(string(results[0].Rows[0][0]), 10, 64)
	if err == nil {
		c.was(nanos)
	}
	return err
}

// Clock is the server's. Leases of all hosts are judged by it.
func (e *Engine) Clock() machine.BootTime {
	return machine.BootTime{Boot: serverClock, Since: e.clock.now()}
}

// OneMachine is what the address says.
func (e *Engine) OneMachine() bool { return e.address.oneMachine }
