// Command csqlite is the C SQLite side of bench: it appends turns to a run of a file that our
// migrations made, with our pragmas and the statements of our store, prepared. It is a module and a
// program of its own, so that nothing else needs cgo.
//
// It takes the file, the run's key, and the bytes of a turn's output as arguments. Then, for each
// line "CALLS TURNS" on stdin, it makes so many calls of so many turns each, a transaction a call,
// and answers with a line of their times in nanoseconds.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"time"

	_ "github.com/mattn/go-sqlite3" // registers the driver "sqlite3"
)

func main() {
	if err := serve(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "csqlite:", err)
		os.Exit(1)
	}
}

// pragmas are those of our writing connection.
var pragmas = []string{
	"busy_timeout=250", "trusted_schema=0", "cell_size_check=1", "foreign_keys=1",
	"journal_mode=wal", "synchronous=NORMAL", "wal_autocheckpoint=4000",
}

// The statements of a call: the first turn finds the run and the next sequence, the others follow it.
const (
	columns = `id, kind, unknown_kind, turn_index, prompt, tool, parameters, output, cli_kind, cli_code, verdict,
    policy_rule, policy_param, raw, exact, batch, recorded_at, checksum, bytes`
	sqlFirst = `INSERT INTO run_records (` + columns + `) VALUES (coalesce((
    SELECT nullif(coalesce((SELECT max(id) FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24),
    key << 24) + 1, (key << 24) + 16777215)
    FROM runs WHERE key = ? AND turn_count IS NULL), (SELECT max(id) FROM run_records), 0), ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    (SELECT bytes FROM run_records WHERE id > ? << 24 AND id < (? + 1) << 24 ORDER BY id DESC LIMIT 1) + ?)
ON CONFLICT (id) DO NOTHING`
	sqlNext = `INSERT INTO run_records (` + columns +
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func serve(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: csqlite FILE RUN BYTES")
	}
	run, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	a, err := open(ctx, args[0], run, size)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var calls, turns int
		if _, err := fmt.Sscan(in.Text(), &calls, &turns); err != nil {
			return err
		}
		times := make([]string, calls)
		for i := range times {
			began := time.Now()
			if err := a.call(ctx, turns); err != nil {
				return err
			}
			times[i] = strconv.FormatInt(int64(time.Since(began)), 10)
		}
		fmt.Println(strings.Join(times, " "))
	}
	return errors.Join(in.Err(), a.close())
}

// An appender is a connection with its prepared statements.
type appender struct {
	db                         *sql.DB
	conn                       *sql.Conn
	begin, first, next, commit *sql.Stmt
	run                        int64
	output                     []byte
}

func open(ctx context.Context, path string, run int64, size int) (*appender, error) {
	pool, err := sql.Open("sqlite3", "file:"+path+"?mode=rw")
	if err != nil {
		return nil, err
	}
	a := &appender{db: pool, run: run, output: []byte(`"` + strings.Repeat("x", size-2) + `"`)}
	if a.conn, err = pool.Conn(ctx); err != nil {
		return nil, err
	}
	for _, p := range pragmas {
		if _, err := a.conn.ExecContext(ctx, "PRAGMA "+p); err != nil {
			return nil, fmt.Errorf("PRAGMA %s: %w", p, err)
		}
	}
	return a, a.prepare(ctx)
}

func (a *appender) prepare(ctx context.Context) error {
	for into, query := range map[**sql.Stmt]string{
		&a.begin: "BEGIN IMMEDIATE", &a.first: sqlFirst, &a.next: sqlNext, &a.commit: "COMMIT",
	} {
		statement, err := a.conn.PrepareContext(ctx, query) //nolint:sqlclosecheck // close closes it
		if err != nil {
			return err
		}
		*into = statement
	}
	return nil
}

func (a *appender) call(ctx context.Context, turns int) error {
	if _, err := a.begin.ExecContext(ctx); err != nil {
		return err
	}
	result, err := a.first.ExecContext(ctx,
		append(append([]any{a.run}, a.values(0)...), a.run, a.run, a.size())...)
	if err != nil {
		return err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return err
	}
	for i := 1; i < turns; i++ {
		id++
		if _, err := a.next.ExecContext(ctx,
			append(append([]any{id}, a.values(int64(i))...), a.size()*int64(i))...); err != nil {
			return err
		}
	}
	_, err = a.commit.ExecContext(ctx)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size returns how many bytes a turn adds to its run.
func (a *appender) size() int64 { return int64(len(a.output) + len("drive_cli")) }

// values are those of a turn, in the order of the columns behind the id, without the bytes. The
// checksum is of as many bytes as ours.
func (a *appender) values(index int64) []any {
	sum := int64(crc32.Checksum(a.output, castagnoli))
	var batch any // the first row of a call has its number
	if index == 0 {
		batch = time.Now().UnixNano()
	}
	return []any{
		"turn", nil, index, nil, "drive_cli", nil, a.output, nil, nil, "pass", nil, nil, nil, 1, batch,
		time.Now().UnixNano(), sum,
	}
}

func (a *appender) close() error {
	return errors.Join(a.begin.Close(), a.first.Close(), a.next.Close(), a.commit.Close(), a.conn.Close(),
		a.db.Close())
}
