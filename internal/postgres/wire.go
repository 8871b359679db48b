package postgres

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"selvedge/internal/engine"
)

// background is the context of every statement of a write: one that can end would cut the
// connection in the middle.
var background = context.Background()

// statementCacheSize bounds the prepared statements that a connection keeps.
const statementCacheSize = 512

// A wire is one connection to the server with its prepared statements. One goroutine at a time uses it.
type wire struct {
	conn     *pgconn.PgConn
	line     *line                // below conn
	pooled   bool                 // a pooler is in between
	leave    func()               // ends the scout's watch of the line; nil without one
	prepared map[string]*prepared // by the text before rebinding
	made     int                  // how many statements were named
	old      int                  // how many of them before the transaction
	usedOld  bool                 // the transaction has used one of those
	reading  *results             // the rows that are still on the connection
	ahead    []bound              // sent in the message of the next statement, before it
	size     int                  // of ahead, in bytes
	answers  answers              // to questions that were asked ahead; the transaction's
	dropped  bool                 // answers were dropped before they were used
	// a statement was bound that may change something; the transaction sets it back
	changed bool
	unlock  []bound                   // releases the lock that look took for the transaction, if it did
	touched engine.Touched            // rows of followed tables, by the transaction
	told    []*pgconn.Notification    // received, on a connection that listens
	left    *pgconn.MultiResultReader // the answer to a ROLLBACK that is still to be read
	warned  *pgconn.Notice            // the last warning of the server, since it was forgotten
	sealed  atomic.Bool               // the connection may not ask the server to cancel; see dial

	// Its end ends the statements of the read that has the connection; background for a write.
	ctx context.Context
}

type prepared struct {
	*pgconn.StatementDescription
	number  int      // made when it was named
	columns []string // the names of the results
	formats []int16  // of the results
	changes bool     // it may change something
	draws   bool     // it may draw numbers from a sequence, which must be committed
	many    string   // the statement that inserts many such rows; "" without one
	limit   limit

	touches      []touching
	touchReturns bool // the key is in the rows that it returns
}

// A bound is a statement with its arguments, ready to be sent: a prepared one, or an unprepared
// text that ends or begins something.
type bound struct {
	*prepared
	text string
	// question is set if the answer is kept; see prefetch.
	question string
	of       *prepared // the statement for one row, if several were folded; see fold
	values   [][]byte
	formats  []int16 // of the values
}

// control is a text of ours that has no arguments, such as COMMIT.
func control(text string) bound { return bound{text: text} }

func (b bound) isControl() bool { return b.text != "" }

// own copies the bytes among the values: the caller may write over them before they are sent.
func (b *bound) own() {
	for i, oid := range b.ParamOIDs {
		if oid == oidBytea {
			b.values[i] = bytes.Clone(b.values[i])
		}
	}
}

// simple runs statements of ours without arguments in one message, and returns their command
// tags.
func (w *wire) simple(ctx context.Context, text string) ([]string, error) {
	if err := w.flush(ctx); err != nil {
		return nil, err
	}
	w.answers = answers{}
	results, err := w.conn.Exec(ctx, text).ReadAll()
	var tags []string
	for _, r := range results {
		if r.Err == nil {
			tags = append(tags, r.CommandTag.String())
		}
	}
	return tags, w.lost(ctx, err)
}

// An answer is the server's answer to one statement of several.
type answer struct {
	tag string
	row [][]byte // the first one; nil without rows
}

// exchange sends statements in one message and reads all answers. The first error stops the rest.
func (w *wire) exchange(ctx context.Context, all []bound) ([]answer, error) {
	if err := w.free(); err != nil {
		return nil, err
	}
	results := w.send(ctx, all)
	var answers []answer
	for results.NextResult() {
		a, err := w.pass(ctx, &all[len(answers)], results.ResultReader())
		if err != nil {
			break // Close reports it
		}
		answers = append(answers, a)
	}
	return answers, w.lost(ctx, results.Close())
}

// send sends statements in one message.
func (w *wire) send(ctx context.Context, all []bound) *pgconn.MultiResultReader {
	batch := &pgconn.Batch{}
	for i := range all {
		b := &all[i]
		if b.prepared == nil {
			batch.ExecParams(b.text, nil, nil, nil, nil)
		} else {
			batch.ExecStatement(b.StatementDescription, b.values, b.formats, b.prepared.formats)
		}
	}
	return w.conn.ExecBatch(ctx, batch)
}

// pass reads the answer to one of several statements, and keeps it if it answers a question.
func (w *wire) pass(ctx context.Context, b *bound, from *pgconn.ResultReader) (a answer, err error) {
	if b.question != "" {
		return a, w.keep(ctx, b, from)
	}
	for from.NextRow() {
		w.touchRow(b.prepared, from.Values())
		if a.row == nil {
			for _, value := range from.Values() {
				a.row = append(a.row, slices.Clone(value))
			}
		}
	}
	tag, err := from.Close()
	a.tag = tag.String()
	return a, err
}

// flush sends the queued statements, if no other statement follows.
func (w *wire) flush(ctx context.Context) error {
	ahead := w.ahead
	if w.ahead = nil; len(ahead) == 0 {
		return w.free()
	}
	_, err := w.exchange(ctx, ahead)
	return err
}

// unbegun reports whether the transaction's BEGIN was not sent yet.
func (w *wire) unbegun() bool { return w.conn.TxStatus() == 'I' && w.left == nil }

// endLater ends a transaction without changes, and does not wait for the answer: the next user of
// the connection reads it.
func (w *wire) endLater() {
	w.ahead = nil
	if w.conn.IsClosed() || w.unbegun() {
		return
	}
	if err := w.free(); err != nil {
		_ = w.Close()
		return
	}
	w.left = w.send(background, []bound{control(sqlUndo)})
}

// collect reads the answer that endLater did not wait for, no longer than ctx lasts. A connection
// that does not answer is closed.
func (w *wire) collect(ctx context.Context) error {
	if w.left == nil {
		return nil
	}
	left := w.left
	w.left = nil
	_ = w.conn.Conn().SetReadDeadline(time.Now().Add(commitPatience))
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = w.conn.Conn().SetReadDeadline(time.Now()); close(ended) })
	err := left.Close()
	if !stop() {
		<-ended
	}
	_ = w.conn.Conn().SetReadDeadline(time.Time{})
	if err != nil && !w.conn.IsClosed() {
		_ = w.Close()
	}
	return w.lost(background, err)
}

const sqlUndo = "ROLLBACK"

// undo ends a transaction. A connection that can't is closed.
func (w *wire) undo() error {
	if w.conn.IsClosed() {
		return errConnection
	}
	all := w.ending(sqlUndo)
	if w.ahead, w.unlock = nil, nil; w.unbegun() {
		all = all[1:]
	}
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := patient(background, commitPatience)
	defer cancel()
	w.answers = answers{}
	_, err := w.exchange(ctx, all)
	if err != nil {
		_ = w.Close()
	}
	return err
}

// ending ends the transaction, and then releases the lock of look.
func (w *wire) ending(text string) []bound { return append([]bound{control(text)}, w.unlock...) }

// lost attributes the error of a statement to its context, if that ended, or else to the
// connection.
func (w *wire) lost(ctx context.Context, err error) error {
	switch {
	case err != nil && ctx.Err() != nil && state(err) == "":
		return &interruption{context.Cause(ctx)}
	case w.usedOld && isOutdated(err):
		return fmt.Errorf("%w: %w", errStale, err)
	case err == nil || !w.conn.IsClosed() || errors.Is(err, errConnection):
		return err
	}
	return fmt.Errorf("%w: %w", errConnection, err)
}

// free reads the rest of open rows into memory, so that the connection can be used.
func (w *wire) free() error {
	if err := w.collect(background); err != nil {
		return err
	}
	if w.reading == nil {
		return nil
	}
	return w.reading.keepRest()
}

// statement returns a prepared statement for a caller's text.
func (w *wire) statement(ctx context.Context, query string) (*prepared, error) {
	if kept, ok := w.prepared[query]; ok {
		w.usedOld = w.usedOld || kept.number <= w.old
		return kept, nil
	}
	text, changes, draws, err := rebind(query)
	if err != nil {
		return nil, err
	}
	if err := w.free(); err != nil {
		return nil, err
	}
	// A statement that can't be prepared must fail in the savepoint that it belongs to.
	if w.conn.TxStatus() == 'T' && slices.ContainsFunc(w.ahead, bound.isControl) {
		if err := w.flush(ctx); err != nil {
			return nil, err
		}
	}
	if len(w.prepared) >= statementCacheSize {
		if err := w.forget(ctx); err != nil {
			return nil, err
		}
	}
	p, err := w.prepare(ctx, text, nil)
	if err != nil {
		w.usedOld = false
		return nil, err
	}
	p.changes, p.draws, p.many = changes, draws, folded(text, p.ParamOIDs)
	p.limit.find(text)
	if changes {
		p.touches, p.touchReturns = touchings(text)
		p.touchReturns = p.touchReturns && len(p.Fields) > 0
	}
	w.prepared[query] = p
	return p, nil
}

func (w *wire) prepare(ctx context.Context, text string, types []uint32) (*prepared, error) {
	w.made++
	// The name tells texts apart: behind a pooler, another program's statement may have the number.
	name := fmt.Sprintf("s%d_%x", w.made, crc32.ChecksumIEEE([]byte(text)))
	described, err := w.conn.Prepare(ctx, name, text, types)
	if err == nil {
		err = w.findBases(ctx, described.ParamOIDs)
	}
	if err != nil {
		return nil, err
	}
	p := &prepared{StatementDescription: described, number: w.made}
	for i := range p.Fields {
		p.Fields[i].Format = formatOf(p.Fields[i].DataTypeOID)
		p.columns = append(p.columns, p.Fields[i].Name)
		p.formats = append(p.formats, p.Fields[i].Format)
	}
	return p, nil
}

// sqlBase finds the type that a domain is over.
const sqlBase = `SELECT typbasetype FROM pg_catalog.pg_type WHERE oid = $1 AND typbasetype <> 0`

// findBases replaces domains by their types, which decide how values are encoded.
func (w *wire) findBases(ctx context.Context, types []uint32) error {
	for i := range types {
		for types[i] >= firstUserType {
			domain := strconv.AppendUint(nil, uint64(types[i]), 10)
			found := w.conn.ExecParams(ctx, sqlBase, [][]byte{domain}, nil, nil, nil).Read()
			if found.Err != nil {
				return found.Err
			}
			if len(found.Rows) == 0 {
				break // it is no domain
			}
			base, err := strconv.ParseUint(string(found.Rows[0][0]), 10, 32)
			if err != nil {
				return err
			}
			types[i] = uint32(base)
		}
	}
	return nil
}

// forget closes some of the cached statements, but none that is queued to be sent.
func (w *wire) forget(ctx context.Context) error {
	left := statementCacheSize / 4
	for query, p := range w.prepared {
		all := p.limit.all(p)
		if slices.ContainsFunc(w.ahead, func(b bound) bool { return slices.Contains(all, b.prepared) }) {
			continue
		}
		if left--; left < 0 {
			break
		}
		for _, one := range all {
			if err := w.conn.Deallocate(ctx, one.Name); err != nil {
				return err
			}
		}
		delete(w.prepared, query)
	}
	return nil
}

// bind returns a caller's statement as it is sent. Arguments are converted as by database/sql.
func (w *wire) bind(ctx context.Context, query string, args []any) (b bound, err error) {
	if b.prepared, err = w.statement(ctx, query); err != nil {
		return b, err
	}
	if len(args) != len(b.ParamOIDs) {
		return b, fmt.Errorf("%w: the statement takes %d arguments and was given %d", engine.ErrInvalid,
			len(b.ParamOIDs), len(args))
	}
	b.values = make([][]byte, len(args))
	b.formats = make([]int16, len(args))
	converted := make([]driver.Value, len(args))
	for i, arg := range args {
		if named, ok := arg.(sql.NamedArg); ok {
			arg = named.Value
		}
		if converted[i], err = driver.DefaultParameterConverter.ConvertValue(arg); err != nil {
			return b, fmt.Errorf("%w: argument %d: %w", engine.ErrInvalid, i+1, err)
		}
		if b.values[i], b.formats[i], err = encode(converted[i], b.ParamOIDs[i]); err != nil {
			return b, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	w.changed = w.changed || b.changes
	w.touch(b.prepared, converted)
	b.prepared, err = w.limited(ctx, b.prepared, converted)
	return b, err
}

// bindDraw is bind for a statement that draws its numbers whatever it finds.
func (w *wire) bindDraw(ctx context.Context, query string, args []any) (bound, error) {
	b, err := w.bind(ctx, query, args)
	w.changed = w.changed || err == nil && b.draws
	return b, err
}

// put queues a statement to be sent with the next one, in its message.
func (w *wire) put(ctx context.Context, query string, args []any) error {
	b, err := w.bindDraw(ctx, query, args)
	if err == nil {
		w.ahead = append(w.ahead, b)
	}
	return w.lost(ctx, err)
}

// queue is put for a statement that may be one of very many.
func (w *wire) queue(ctx context.Context, query string, args []any) error {
	b, err := w.bindDraw(ctx, query, args)
	if err == nil {
		err = w.add(ctx, b)
	}
	return w.lost(ctx, err)
}

// The queue is bounded: a transaction of very many changes is sent in several messages.
const (
	mostAhead      = 1000
	mostAheadBytes = 1 << 20
)

// add queues a statement, and sends the queue once it is large enough for a message.
func (w *wire) add(ctx context.Context, b bound) error {
	if len(w.ahead) == 0 {
		w.size = 0
	}
	if together, err := w.fold(ctx, &b); err != nil {
		return err
	} else if !together {
		b.own()
		w.ahead = append(w.ahead, b)
	}
	for _, value := range b.values {
		w.size += 4 + len(value)
	}
	if len(w.ahead) < mostAhead && w.size < mostAheadBytes {
		return nil
	}
	return w.flush(ctx)
}

// A reader reads the answer to a statement, which may be one of several that were sent together.
type reader struct {
	*pgconn.ResultReader
	all *pgconn.MultiResultReader // nil if it was sent alone
}

// Close reads the rest.
func (r reader) Close() (pgconn.CommandTag, error) {
	tag, err := r.ResultReader.Close()
	if r.all != nil {
		if failed := r.all.Close(); err == nil {
			err = failed
		}
	}
	return tag, err
}

var errNoAnswer = errors.New("the server answered less than it was asked")

// run begins a statement, after the queued ones.
func (w *wire) run(ctx context.Context, b bound) (reader, error) {
	if err := w.free(); err != nil {
		return reader{}, err
	}
	ahead := w.ahead
	if w.ahead = nil; len(ahead) == 0 {
		return reader{ResultReader: w.conn.ExecPrepared(ctx, b.Name, b.values, b.formats, b.prepared.formats)}, nil
	}
	all := w.send(ctx, append(ahead, b))
	for i := range ahead {
		if !all.NextResult() {
			return reader{}, cmp.Or(all.Close(), errNoAnswer)
		}
		if _, err := w.pass(ctx, &ahead[i], all.ResultReader()); err != nil {
			return reader{}, cmp.Or(all.Close(), err)
		}
	}
	if !all.NextResult() {
		return reader{}, cmp.Or(all.Close(), errNoAnswer)
	}
	return reader{all.ResultReader(), all}, nil
}

// exec runs a statement and counts the rows that it changed.
func (w *wire) exec(query string, args []any) (int64, error) {
	b, err := w.bindDraw(w.ctx, query, args)
	var answered reader
	if err == nil {
		w.drop()
		answered, err = w.run(w.ctx, b)
	}
	var tag pgconn.CommandTag
	if err == nil {
		for b.touchReturns && answered.NextRow() {
			w.touchRow(b.prepared, answered.Values())
		}
		tag, err = answered.Close()
	}
	return tag.RowsAffected(), w.lost(w.ctx, err)
}

// query runs a statement. It returns the statement's error if that fails at once.
func (w *wire) query(query string, args []any) (*results, error) {
	b, err := w.bind(w.ctx, query, args)
	if err != nil {
		return nil, w.lost(w.ctx, err)
	}
	if kept, err := w.prefetched(w.ctx, query, &b); err != nil {
		return nil, err
	} else if kept != nil {
		return kept, nil
	}
	if b.changes {
		w.drop()
	}
	answered, err := w.run(w.ctx, b)
	if err != nil {
		return nil, w.lost(w.ctx, err)
	}
	r := &results{wire: w, ctx: w.ctx, prepared: b.prepared, reader: &answered}
	w.reading = r
	r.ahead = r.advance() // the error of a change with RETURNING comes before its first row
	w.changed = w.changed || b.draws && r.ahead
	if r.failed != nil {
		return nil, r.failed
	}
	return r, nil
}

// mayDial sets whether the end of a statement's context has the server cancel the statement. For a
// connection that was closed it changes nothing: pgconn is about to ask.
func (w *wire) mayDial(may bool) {
	if !w.conn.IsClosed() {
		w.sealed.Store(!may)
	}
}

// Close ends the session with the server. It waits up to closePatience for the answer, and for the
// server to cancel a statement whose context ended.
func (w *wire) Close() error {
	if w.leave != nil {
		w.leave()
	}
	ctx, cancel := context.WithTimeout(background, closePatience)
	defer cancel()
	err := w.conn.Close(ctx)
	select {
	case <-w.conn.CleanupDone():
	case <-ctx.Done():
	}
	if w.line.ended.Load() || hungUp(err) {
		return nil
	}
	return err
}

// hungUp reports whether an error of closing is only that the server, asked to end the session, has closed
// the connection first: TLS has a last message after that.
func hungUp(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EPIPE) ||
		errors.Is(err, unix.ECONNRESET)
}
