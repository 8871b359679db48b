package db_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// programs are what a process that dbtest.Start makes can run.
var programs = map[string]dbtest.Program{
	"crowded":   crowded,
	"frugal":    frugal,
	"upgrader":  upgrader,
	"bearer":    bearer,
	"stranger":  stranger,
	"opened":    opened,
	"copier":    copier,
	"foreigner": foreigner,
	"opener":    opener,
	"appender":  appender,
	"owner":     owner,
	"holder":    holder,
	"limited":   limited,
	"waiting":   waitingWriter,
	"stepper":   stepper,
	"reserver":  reserver,
	"moving":    moving,
}

func TestMain(m *testing.M) { dbtest.Main(m, programs) }

// eachLine runs fn for every line of stdin.
func eachLine(fn func(line string) error) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := fn(lines.Text()); err != nil {
			return err
		}
	}
	return nil
}

// opener opens each path that it is told, writes and reads once, closes, and says so.
func opener([]string) error {
	return eachLine(func(path string) error {
		d, err := db.Open(context.Background(), path, db.Options{})
		if err != nil {
			return err
		}
		if err := d.Write(context.Background(), "touch", func(tx *db.Tx) error {
			_, err := tx.Store().Scope(fmt.Sprint("process ", os.Getpid()))
			return err
		}); err != nil {
			return err
		}
		if err := d.Close(); err != nil {
			return err
		}
		fmt.Println("done")
		return nil
	})
}

// appender writes numbers, one a transaction, and says each one once it is acknowledged. Arguments:
// path, name, count.
func appender(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	for i := range count {
		if err := insertNumber(d, args[1], i); err != nil {
			return err
		}
		fmt.Println(i)
	}
	return d.Close()
}

// stepper writes one number for each line that it gets, and then says it. Arguments: path, name.
func stepper(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	n := 0
	err = eachLine(func(string) error {
		if err := insertNumber(d, args[1], n); err != nil {
			return err
		}
		fmt.Println(n)
		n++
		return nil
	})
	return errors.Join(err, d.Close())
}

func insertNumber(d *db.DB, name string, n int) error {
	return d.Write(context.Background(), "insert", func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO numbers (name, n) VALUES (?, ?)", name, n)
		return err
	})
}

// owner registers itself, says its number and waits to be told to end.
func owner(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	var id int64
	if err := d.Write(context.Background(), "claim", func(tx *db.Tx) error {
		var err error
		if id, err = tx.Store().Owner(); err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO claims (owner_id) VALUES (?)", id)
		return err
	}); err != nil {
		return err
	}
	fmt.Println(id)
	return eachLine(func(string) error { return nil })
}

// frugal opens the file with more and more descriptors, until it can be opened, and says of each
// failure whether it says why.
func frugal(args []string) error {
	for n := uint64(4); ; n++ {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: 4096}); err != nil {
			return err
		}
		d, err := db.Open(context.Background(), args[0], db.Options{})
		if err == nil {
			fmt.Println("opened")
			return d.Close()
		}
		if !errors.Is(err, unix.EMFILE) || !strings.Contains(db.Hint(err), "ulimit") {
			fmt.Printf("%d descriptors: %v (hint: %q)\n", n, err, db.Hint(err))
		}
	}
}

// holder keeps the file open until stdin ends.
func holder(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{SchemaVersion: 1})
	if err != nil {
		return err
	}
	fmt.Println("open")
	if err := eachLine(func(string) error { return nil }); err != nil {
		return err
	}
	return d.Close()
}

// moving has the lock of who moves the WAL into the file (sqlite.org/walformat.html, 2.3.2) until
// its input ends. It waits for it: the care of the file moves the WAL, too.
func moving(args []string) error {
	file, err := os.OpenFile(args[0]+"-shm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); { // a signal of the runtime's ends the wait
		err = unix.FcntlFlock(file.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK, Start: 121, Len: 1})
	}
	if err != nil {
		return err
	}
	fmt.Println("moving")
	return errors.Join(eachLine(func(string) error { return nil }), file.Close())
}

// waitingWriter begins a transaction and stays in it until it gets a line.
func waitingWriter(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	if err := d.Write(context.Background(), "hold", func(*db.Tx) error {
		fmt.Println("writing")
		_, err := in.ReadString('\n')
		return err
	}); err != nil {
		return err
	}
	return d.Close()
}

// limited writes a row that is larger than its files may become, so that the commit fails in the
// middle, and then, with the limit lifted, another one. It says how each ended.
func limited(args []string) error {
	d, err := db.Open(context.Background(), args[0], db.Options{})
	if err != nil {
		return err
	}
	body := strings.Repeat("x", 1<<20)
	write := func() error {
		return d.Write(context.Background(), "insert", func(tx *db.Tx) error {
			_, err := tx.Exec("INSERT INTO numbers (name, n) VALUES (?, 0)", body)
			return err
		})
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	lower := limit
	lower.Cur = 300 << 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &lower); err != nil {
		return err
	}
	fmt.Println(describe(write()))
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	fmt.Println(describe(write()))
	return d.Close()
}
