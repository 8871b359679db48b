package db_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/test/dbtest"
)

// An order is a call that a reserver makes.
type order struct {
	Op       string        `json:"op"` // reserve, hold, renew, release, stop, claim, undone, life, write
	Name     string        `json:"name,omitempty"`
	Epoch    int64         `json:"epoch,omitempty"`
	TTL      time.Duration `json:"ttl,omitempty"`
	Detached bool          `json:"detached,omitempty"`
	Owner    int64         `json:"owner,omitempty"`
	Patience time.Duration `json:"patience,omitempty"` // 0: without an end
}

// A reply is how it ended.
type reply struct {
	Epoch int64  `json:"epoch,omitempty"`
	Owner int64  `json:"owner,omitempty"`
	Taken bool   `json:"taken,omitempty"` // ErrConflict
	Lost  bool   `json:"lost,omitempty"`  // ErrLeaseLost
	Busy  bool   `json:"busy,omitempty"`  // ErrBusy: nothing was done
	Life  string `json:"life,omitempty"`
	Error string `json:"error,omitempty"`
}

// reserver carries orders out on the file that it is given; with a second argument, read-only.
func reserver(args []string) error {
	d, err := db.Open(context.Background(), args[0],
		db.Options{Synchronous: db.SyncNormal, ReadOnly: len(args) > 1})
	if err != nil {
		out, _ := json.Marshal(reply{Error: err.Error()})
		fmt.Println(string(out))
		return nil
	}
	fmt.Println("{}")
	err = eachLine(func(line string) error {
		var o order
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			return err
		}
		out, err := json.Marshal(o.carryOut(d))
		fmt.Println(string(out))
		return err
	})
	return errors.Join(err, d.Close())
}

func (o order) carryOut(d *db.DB) (r reply) {
	err := o.do(d, &r)
	r.Taken, r.Lost, r.Busy = errors.Is(err, db.ErrConflict), errors.Is(err, db.ErrLeaseLost),
		errors.Is(err, db.ErrBusy)
	if err != nil && !r.Taken && !r.Lost {
		r.Error = err.Error()
	}
	return r
}

func (o order) do(d *db.DB, r *reply) error {
	ctx := context.Background()
	if o.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Patience)
		defer cancel()
	}
	lease := func() (*db.Lease, error) { return d.Reattach(ctx, "", "port", o.Name, o.Epoch) }
	switch o.Op {
	case "reserve":
		l, err := d.Reserve(ctx, "port", o.Name,
			db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: o.TTL, Detached: o.Detached}})
		if err == nil {
			r.Epoch = l.Epoch()
		}
		return err
	case "renew", "hold", "release", "stop":
		l, err := lease()
		if err != nil {
			return err
		}
		switch o.Op {
		case "renew":
			return l.Renew(ctx)
		case "release":
			return l.Release(ctx)
		case "stop": // in the middle of its work
			continued := make(chan os.Signal, 1)
			signal.Notify(continued, syscall.SIGCONT)
			stopped := false
			return l.Hold(ctx, "work", func(tx *db.Tx) error {
				if !stopped {
					stopped = true
					fmt.Println("stopping")
					if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
						return err
					}
					<-continued // another thread may take the signal, while this one goes on
				}
				_, err := tx.Store().Scope("written late")
				return err
			})
		}
		return l.Hold(ctx, "work", func(*db.Tx) error { return nil })
	case "claim":
		return d.Write(ctx, "claim", func(tx *db.Tx) (err error) {
			if r.Owner, err = tx.Store().Owner(); err == nil {
				_, err = tx.Exec("INSERT INTO claims (owner_id) VALUES (?)", r.Owner)
			}
			return err
		})
	case "undone":
		_ = d.Write(ctx, "undone", func(tx *db.Tx) (err error) {
			if r.Owner, err = tx.Store().Owner(); err == nil {
				err = errors.New("no")
			}
			return err
		})
		return nil
	case "life":
		return d.Read(ctx, "life", func(rx *db.Rx) error {
			life, err := rx.Store().OwnerLife(o.Owner)
			r.Life = map[txn.Life]string{
				txn.LifeAlive: "alive", txn.LifeDead: "dead", txn.LifeUnknown: "unknown",
			}[life]
			return err
		})
	case "write":
		return d.Write(ctx, "write", func(tx *db.Tx) error { _, err := tx.Store().Scope(o.Name); return err })
	}
	return fmt.Errorf("no such order: %s", o.Op)
}

// A crew is a process that carries orders out.
type crew struct {
	*dbtest.Process
	t testing.TB
}

// startCrew starts one; refused is why it could not open the file.
func startCrew(t testing.TB, under []string, args ...string) (c *crew, refused string) {
	t.Helper()
	c = &crew{dbtest.StartUnder(t, under, "reserver", args...), t}
	return c, c.reply().Error
}

func (c *crew) reply() (r reply) {
	c.t.Helper()
	line, ok := c.Line()
	if !ok || json.Unmarshal([]byte(line), &r) != nil {
		c.t.Fatalf("the process said %q", line)
	}
	return r
}

func (c *crew) send(o order) {
	c.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Send(string(text))
}

func (c *crew) do(o order) reply {
	c.t.Helper()
	c.send(o)
	return c.reply()
}

// must is do for an order that has to succeed.
func (c *crew) must(o order) reply {
	c.t.Helper()
	r := c.do(o)
	if r.Error != "" || r.Taken || r.Lost {
		c.t.Fatalf("%+v: %+v", o, r)
	}
	return r
}
