package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/backend/payload"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/core"
	"go.etcd.io/bbolt"
	"google.golang.org/adk/v2/session"
	adk "google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"maragu.dev/goqite"
)

// A queued is a queue of goqite. It knows no runs: a record is a message.
type queued struct {
	pool  *sql.DB
	queue *goqite.Queue
}

// goqiteSchema is the table that goqite's users create.
var goqiteSchema = []string{
	`CREATE TABLE IF NOT EXISTS goqite (
		id TEXT PRIMARY KEY DEFAULT ('m_' || lower(hex(randomblob(16)))),
		created TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
		updated TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
		queue TEXT NOT NULL, body BLOB NOT NULL, timeout TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
		received INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0) STRICT`,
	`CREATE TRIGGER IF NOT EXISTS goqite_updated AFTER UPDATE ON goqite BEGIN
		UPDATE goqite SET updated = strftime('%Y-%m-%dT%H:%M:%fZ') WHERE id = old.id; END`,
	`CREATE INDEX IF NOT EXISTS goqite_next ON goqite (queue, priority DESC, created)`,
}

func openGoqite(ctx context.Context, dir string, o options) (store, error) {
	pool, err := openPool("sqlite3", mattnDSN, filepath.Join(dir, "queue.db"), o.full)
	if err != nil {
		return nil, err
	}
	for _, statement := range goqiteSchema {
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, pool.Close())
		}
	}
	return queued{pool, goqite.New(goqite.NewOpts{DB: pool, Name: "records"})}, nil
}

func (q queued) Append(ctx context.Context, _, _ int, body []byte) error {
	return q.queue.Send(ctx, goqite.Message{Body: body})
}

func (q queued) Cycle(ctx context.Context, _ string, body []byte) error {
	if err := q.Append(ctx, 0, 0, body); err != nil {
		return err
	}
	m, err := q.queue.Receive(ctx)
	if err == nil && m == nil {
		err = errors.New("the queue is empty")
	}
	if err != nil {
		return err
	}
	return q.queue.Delete(ctx, m.ID)
}

func (q queued) Close() error { return q.pool.Close() }

// key is that of a record of a run.
func key(run, i int) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(run)), uint64(i))
}

// A summary is a run of a key-value store's list.
type summary struct {
	ID, Agent, Intent, Status string
	Started                   int64
}

func summarize(run int) []byte {
	text, err := json.Marshal(summary{name(run), agent, intent, "running", int64(run)})
	if err != nil {
		panic(err) // strings and a number always have JSON
	}
	return text
}

// A bolt keeps the turns, the runs and the paused runs in a bucket each.
type bolt struct {
	db    *bbolt.DB
	write func(func(*bbolt.Tx) error) error
}

var turnsBucket, runsBucket, pausedBucket = []byte("turns"), []byte("runs"), []byte("paused")

func openBolt(_ context.Context, dir string, o options) (store, error) {
	d, err := bbolt.Open(filepath.Join(dir, "bolt.db"), 0o600, &bbolt.Options{
		NoSync: !o.full, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, err
	}
	b := bolt{d, d.Update}
	if o.callers > 1 {
		b.write = d.Batch // calls at once share a transaction; the first waits for more
	}
	return b, d.Update(func(tx *bbolt.Tx) error {
		for _, bucket := range [][]byte{turnsBucket, runsBucket, pausedBucket} {
			if _, err := tx.CreateBucketIfNotExists(bucket); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b bolt) Append(_ context.Context, run, i int, body []byte) error {
	return b.write(func(tx *bbolt.Tx) error { return tx.Bucket(turnsBucket).Put(key(run, i), body) })
}

func (b bolt) Cycle(_ context.Context, id string, body []byte) error {
	claimed := []byte(id + " claimed")
	return errors.Join(
		b.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(pausedBucket).Put([]byte(id), body) }),
		b.db.Update(func(tx *bbolt.Tx) error {
			paused := tx.Bucket(pausedBucket)
			body := paused.Get([]byte(id))
			return errors.Join(paused.Put(claimed, body), paused.Delete([]byte(id)))
		}),
		b.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(pausedBucket).Delete(claimed) }))
}

func (b bolt) Fill(_ context.Context, n int) error {
	return b.db.Update(func(tx *bbolt.Tx) error {
		for run := range n {
			if err := tx.Bucket(runsBucket).Put(key(run, 0), summarize(run)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b bolt) List(context.Context) (n int, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(runsBucket).Cursor()
		for k, v := c.Last(); k != nil && n < page; k, v = c.Prev() {
			if err := json.Unmarshal(v, new(summary)); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

func (b bolt) Close() error { return b.db.Close() }

// A stone keeps the same in pebble, with a letter before each key.
type stone struct {
	db    *pebble.DB
	write *pebble.WriteOptions
}

func openPebble(_ context.Context, dir string, o options) (store, error) {
	d, err := pebble.Open(filepath.Join(dir, "pebble"), &pebble.Options{
		Logger: quiet{pebble.DefaultLogger}, FormatMajorVersion: pebble.FormatNewest,
	})
	return stone{d, &pebble.WriteOptions{Sync: o.full}}, err
}

// quiet leaves out what pebble tells of its work.
type quiet struct{ pebble.Logger }

func (quiet) Infof(string, ...any) {}

func (s stone) Append(_ context.Context, run, i int, body []byte) error {
	return s.db.Set(append([]byte("t"), key(run, i)...), body, s.write)
}

func (s stone) Cycle(_ context.Context, id string, body []byte) error {
	paused, claimed := []byte("p"+id), []byte("c"+id)
	if err := s.db.Set(paused, body, s.write); err != nil {
		return err
	}
	got, value, err := s.db.Get(paused)
	if err != nil {
		return err
	}
	batch := s.db.NewBatch()
	err = errors.Join(batch.Set(claimed, got, nil), batch.Delete(paused, nil), value.Close(),
		batch.Commit(s.write))
	if err != nil {
		return err
	}
	return s.db.Delete(claimed, s.write)
}

func (s stone) Fill(_ context.Context, n int) error {
	for run := range n {
		if err := s.db.Set(append([]byte("r"), key(run, 0)...), summarize(run), pebble.NoSync); err != nil {
			return err
		}
	}
	return nil
}

func (s stone) List(ctx context.Context) (n int, err error) {
	runs := &pebble.IterOptions{LowerBound: []byte("r"), UpperBound: []byte("s")}
	it, err := s.db.NewIterWithContext(ctx, runs)
	if err != nil {
		return 0, err
	}
	for more := it.Last(); more && n < page; more = it.Prev() {
		if err := json.Unmarshal(it.Value(), new(summary)); err != nil {
			return n, errors.Join(err, it.Close())
		}
		n++
	}
	return n, it.Close()
}

func (s stone) Close() error { return s.db.Close() }

// A workflows is the SQLite backend of go-workflows. A record is a signal to an instance, and a
// checkpoint the input of one.
type workflows struct{ backend backend.Backend }

const workflowQueue = core.Queue("bench")

func openWorkflows(ctx context.Context, dir string, o options) (store, error) {
	path := filepath.Join(dir, "workflows.db") + "?_pragma=" + synchronous(o.full)
	w := workflows{sqlite.NewSqliteBackend(path, sqlite.WithBackendOptions(
		backend.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))))}
	for run := range mostCallers {
		if err := w.create(ctx, core.NewWorkflowInstance(name(run), "first"), "idle", nil); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

func (w workflows) create(ctx context.Context, instance *core.WorkflowInstance, queue core.Queue,
	input []byte,
) error {
	return w.backend.CreateWorkflowInstance(ctx, instance, history.NewPendingEvent(time.Now(),
		history.EventType_WorkflowExecutionStarted,
		&history.ExecutionStartedAttributes{Queue: queue, Name: "wf", Inputs: []payload.Payload{input}}))
}

func (w workflows) Append(ctx context.Context, run, _ int, body []byte) error {
	return w.backend.SignalWorkflow(ctx, name(run), history.NewPendingEvent(time.Now(),
		history.EventType_SignalReceived, &history.SignalReceivedAttributes{Name: "turn", Arg: body}))
}

func (w workflows) Cycle(ctx context.Context, id string, body []byte) error {
	input, err := json.Marshal(string(body))
	if err != nil {
		return err
	}
	if err := w.create(ctx, core.NewWorkflowInstance(id, id), workflowQueue, input); err != nil {
		return err
	}
	task, err := w.backend.GetWorkflowTask(ctx, []core.Queue{workflowQueue})
	if err == nil && task == nil {
		err = fmt.Errorf("the instance %s has no task", id)
	}
	if err != nil {
		return err
	}
	for i, e := range task.NewEvents {
		e.SequenceID = int64(i + 1)
	}
	return w.backend.CompleteWorkflowTask(ctx, task, core.WorkflowInstanceStateFinished, task.NewEvents,
		nil, nil, nil)
}

func (w workflows) Close() error { return w.backend.Close() }

// A sessions is the database sessions of ADK-Go. A record is an event of a session.
type sessions struct {
	service session.Service
	pool    *sql.DB
	open    [mostCallers]session.Session
}

func openADK(ctx context.Context, dir string, o options) (store, error) {
	pool, err := openPool("sqlite3", mattnDSN, filepath.Join(dir, "sessions.db"), o.full)
	if err != nil {
		return nil, err
	}
	s := &sessions{pool: pool}
	s.service, err = adk.NewSessionService(gormsqlite.New(gormsqlite.Config{Conn: pool}),
		&gorm.Config{PrepareStmt: true, Logger: logger.Discard})
	if err == nil {
		err = adk.AutoMigrate(s.service)
	}
	for run := 0; err == nil && run < mostCallers; run++ {
		var made *session.CreateResponse
		made, err = s.service.Create(ctx,
			&session.CreateRequest{AppName: agent, UserID: "user", SessionID: name(run)})
		if err == nil {
			s.open[run] = made.Session
		}
	}
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return s, nil
}

func (s *sessions) Append(ctx context.Context, run, i int, body []byte) error {
	e := session.NewEvent(ctx, fmt.Sprint("turn-", i))
	e.Author = agent
	e.Content = genai.NewContentFromText(string(body), genai.RoleModel)
	return s.service.AppendEvent(ctx, s.open[run], e)
}

func (s *sessions) Close() error { return s.pool.Close() }
