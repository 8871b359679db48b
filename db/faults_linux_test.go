package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// A saboteur lets system calls of this whole process fail. The kernel asks it before each one (seccomp(2),
// SECCOMP_RET_USER_NOTIF, Linux 5.7), so it can count over all threads.
type saboteur struct {
	listener int
	number   atomic.Int32 // of the call that is to fail
	unlocks  atomic.Bool  // of fcntl's calls, those that unlock, and not those that lock
	errno    atomic.Int32 // and what with
	from, to atomic.Int64 // which calls, counted from 1 after arm
	seen     atomic.Int64
}

// Of linux/seccomp.h; x/sys has no names for some.
const (
	seccompRetUserNotif      = 0x7fc00000
	seccompRetAllow          = 0x7fff0000
	seccompNotifRecv         = 0xc0502100
	seccompNotifSend         = 0xc0182101
	seccompFilterTsync       = 1
	seccompFilterNewListener = 8
	seccompFilterTsyncESRCH  = 16
	seccompNotifContinue     = 1
)

type seccompNotif struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type seccompAnswer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// sabotage watches the calls with these numbers until the process ends.
func sabotage(numbers ...uint32) (*saboteur, error) {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number of the call
	for i, number := range numbers {
		filter = append(filter, unix.SockFilter{
			Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number,
			Jt: uint8(len(numbers) - i),
		})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: seccompRetAllow},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: seccompRetUserNotif})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the two calls belong to one thread; the second one takes the others along
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		seccompFilterTsync|seccompFilterNewListener|seccompFilterTsyncESRCH, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return nil, fmt.Errorf("seccomp: %w", errno)
	}
	s := &saboteur{listener: int(fd)}
	go s.run()
	return s, nil
}

func (s *saboteur) run() {
	for {
		var asked seccompNotif
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), seccompNotifRecv,
			uintptr(unsafe.Pointer(&asked))); errno != 0 {
			continue // the thread that asked was interrupted
		}
		answer := seccompAnswer{id: asked.id, flags: seccompNotifContinue}
		if asked.nr == s.number.Load() && (asked.nr != unix.SYS_FCNTL || s.counts(asked.args[1], asked.args[2])) {
			if n := s.seen.Add(1); n >= s.from.Load() && n <= s.to.Load() {
				answer.flags, answer.errno = 0, -s.errno.Load()
			}
		}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), seccompNotifSend,
			uintptr(unsafe.Pointer(&answer)))
	}
}

// counts takes of fcntl's calls those that lock, or those that unlock.
func (s *saboteur) counts(command, lock uint64) bool {
	return command == unix.F_SETLK && ((*(**unix.Flock_t)(
		unsafe.Pointer(&lock))).Type == unix.F_UNLCK) == s.unlocks.Load()
}

// arm has the calls of one name from the n-th to the m-th from now on fail.
func (s *saboteur) arm(name string, errno unix.Errno, n, m int64) {
	s.to.Store(0)
	s.number.Store(int32(calls[name]))
	s.unlocks.Store(name == "unlock")
	s.errno.Store(int32(errno))
	s.seen.Store(0)
	s.from.Store(n)
	s.to.Store(m)
}

func (s *saboteur) disarm() { s.to.Store(0) }

func init() { programs["unlucky"] = unlucky }

var calls = map[string]uint32{
	"fsync": unix.SYS_FSYNC, "pwrite64": unix.SYS_PWRITE64, "openat": unix.SYS_OPENAT, "lock": unix.SYS_FCNTL,
	"unlock": unix.SYS_FCNTL, "flock": unix.SYS_FLOCK,
	"pread64": unix.SYS_PREAD64, "ftruncate": unix.SYS_FTRUNCATE,
}

var errnos = map[string]unix.Errno{
	"EIO": unix.EIO, "ENOSPC": unix.ENOSPC, "EDQUOT": unix.EDQUOT, "EINTR": unix.EINTR, "ENOLCK": unix.ENOLCK,
}

// unlucky does what its lines say, on a disk that fails when they say so, and answers each.
// Arguments: path, synchronous.
func unlucky(args []string) error {
	s, err := sabotage(calls["fsync"], calls["pwrite64"], calls["openat"], calls["lock"], calls["pread64"],
		calls["ftruncate"], calls["flock"])
	if err != nil {
		return err
	}
	options := db.Options{Readers: 1}
	if args[1] == "NORMAL" {
		options.Synchronous = db.SyncNormal
	}
	ctx := context.Background()
	var d *db.DB
	var unknown int64 // the batch of the last call whose outcome is unknown
	add := func(name string) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err := d.Write(ctx, "add", func(tx *db.Tx) error {
			batch := tx.Batch()
			if batch != tx.Batch() {
				return errors.New("one call has two batches")
			}
			_, err := tx.Exec("INSERT INTO numbers (name, n) VALUES (?, ?)", name, batch)
			return err
		})
		if batch, ok := db.BatchOf(err); ok {
			unknown = batch
		} else if strings.Contains(describe(err), "unknown") {
			unknown = 0
		}
		return err
	}
	return eachLine(func(line string) error {
		words := strings.Fields(line)
		switch words[0] {
		case "open":
			d, err = db.Open(ctx, args[0]+strings.Join(words[1:], ""), options)
			fmt.Println(describe(err))
		case "fail": // call, errno, from, to
			var from, to int64
			_, _ = fmt.Sscan(words[3]+" "+words[4], &from, &to)
			s.arm(words[1], errnos[words[2]], from, to)
			fmt.Println("armed")
		case "mend":
			s.disarm()
			fmt.Println("mended", s.seen.Load() > 0)
		case "add":
			fmt.Println(describe(add(words[1])))
		case "crowd": // calls that share a commit
			held, release := make(chan struct{}), make(chan struct{})
			ends := make([]string, len(words))
			var all sync.WaitGroup
			all.Go(func() {
				ends[0] = describe(d.Write(ctx, "hold", func(*db.Tx) error { close(held); <-release; return nil }))
			})
			<-held
			for i, name := range words[1:] {
				all.Go(func() { ends[i+1] = describe(add(name)) })
				for d.Waiting() <= i {
					runtime.Gosched()
				}
			}
			close(release)
			all.Wait()
			fmt.Println(strings.Join(ends[1:], ", "))
		case "names":
			var names []string
			err := d.Read(ctx, "names", func(rx *db.Rx) error {
				return rx.Select(&names, "SELECT name FROM numbers ORDER BY name")
			})
			if err != nil {
				fmt.Println(describe(err))
			} else {
				fmt.Println(names)
			}
		case "batch": // whether the row of the unknown call is there
			var n int
			err := d.Read(ctx, "batch", func(rx *db.Rx) error {
				return rx.Get(&n,
					"SELECT count(*) FROM numbers WHERE n = ?", unknown)
			})
			fmt.Println(unknown != 0, n, describe(err))
		case "cut": // the WAL
			fmt.Println(describe(maintenance.GiveBack(ctx, d)))
		case "close":
			fmt.Println(describe(d.Close()))
		}
		return nil
	})
}

// story has a process of its own go through lines, each with the answer that is expected after
// "->", and gives the names in the file after it was killed.
func story(t *testing.T, synchronous string, lines ...string) []string {
	t.Helper()
	path := numbersAt(t)
	live(t, path, synchronous, lines...).Kill()
	return namesAt(t, path)
}

// numbersAt gives the path of a file with a table to write into.
func numbersAt(t *testing.T) string {
	t.Helper()
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	write(t, d, numbers)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func namesAt(t *testing.T, path string) (names []string) {
	t.Helper()
	err := dbtest.OpenAt(t, path, db.Options{}).Read(t.Context(), "names", func(rx *db.Rx) error {
		return rx.Select(&names, "SELECT name FROM numbers ORDER BY name")
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// live has a process go through lines, and leaves it as it is.
func live(t *testing.T, path, synchronous string, lines ...string) *dbtest.Process {
	t.Helper()
	p := dbtest.Start(t, "unlucky", path, synchronous)
	goOn(t, p, lines...)
	return p
}

func goOn(t *testing.T, p *dbtest.Process, lines ...string) {
	t.Helper()
	for _, line := range lines {
		do, answer, _ := strings.Cut(line, " -> ")
		p.Send(do)
		got, ok := p.Line()
		if !ok {
			p.Expect(answer) // fails, and says what the process wrote at its end
		}
		if got != answer {
			t.Errorf("%s: %s, not %s", do, got, answer)
		}
	}
}

func TestCommit_DiskFailureSettledBeforeAnswer(t *testing.T) {
	long := "add " + strings.Repeat("b", 40_000) + " -> input/output error" // more pages than one call writes
	for name, c := range map[string]struct {
		synchronous string
		lines       []string
	}{
		"the wait for the disk": {"FULL", []string{
			"fail fsync EIO 1 1 -> armed", "add b -> input/output error",
			"names -> [a]",
		}},
		"then another write": {"FULL", []string{
			"fail fsync EIO 1 1 -> armed", "add b -> input/output error",
			"add a2 -> nil", "names -> [a a2]",
		}},
		"the quota at the wait": {"FULL", []string{
			"fail fsync EDQUOT 1 1 -> armed", "add b -> disk full",
			"names -> [a]",
		}},
		"the first page": {"FULL", []string{
			"fail pwrite64 EIO 1 1 -> armed", "add b -> input/output error",
			"names -> [a]",
		}},
		"the last page":  {"FULL", []string{"fail pwrite64 EIO 2 2 -> armed", long, "names -> [a]"}},
		"a page, NORMAL": {"NORMAL", []string{"fail pwrite64 EIO 1 1 -> armed", long, "names -> [a]"}},
		"a full disk": {"FULL", []string{
			"fail pwrite64 ENOSPC 1 999 -> armed", "add b -> disk full",
			"names -> [a]", "add c -> disk full", "mend -> mended true", "add a2 -> nil",
		}},
		"a full quota": {"FULL", []string{
			"fail pwrite64 EDQUOT 1 999 -> armed", "add b -> disk full",
			"names -> [a]", "add c -> disk full", "mend -> mended true", "add a2 -> nil",
		}},
		"several callers": {"FULL", []string{
			"fail fsync EIO 1 1 -> armed",
			"crowd b c d -> input/output error, input/output error, input/output error", "names -> [a]",
		}},
		"several, a full disk": {"FULL", []string{
			"fail pwrite64 ENOSPC 1 1 -> armed",
			"crowd a1 a2 a3 -> nil, nil, nil", "names -> [a a1 a2 a3]",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			names := story(t, c.synchronous, slices.Concat([]string{"open -> nil", "add a -> nil"}, c.lines)...)
			if slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, "a") }) {
				t.Errorf("after a kill %v are there: what was answered with an error came back", names)
			}
			if !slices.Contains(names, "a") {
				t.Errorf("after a kill %v are there: an acknowledged write is lost", names)
			}
		})
	}
}

// A checkpoint that a read ends early does not sync the file, and SQLite's next one syncs those pages
// without writing them. After a failed sync Linux keeps none of what was written before.
func TestCheckpoint_FailedSyncLosesNothing(t *testing.T) {
	path := numbersAt(t)
	forgotten, err := os.ReadFile(path)
	must(t, err)
	long := "a" + strings.Repeat("b", 40_000)
	p := live(t, path, "FULL", "open -> nil", "add "+long+" -> nil")
	pool, err := sql.Open("sqlite", "file:"+path)
	must(t, err)
	read, err := pool.Begin()
	must(t, err)
	var rows int
	must(t, read.QueryRow("SELECT count(*) FROM numbers").Scan(&rows))
	goOn(t, p, "add b -> nil")
	_, err = pool.Exec("PRAGMA wal_checkpoint(PASSIVE)")
	must(t, err)
	must(t, errors.Join(read.Rollback(), pool.Close()))
	goOn(t, p, "fail fsync EIO 2 2 -> armed", "cut -> nil", "mend -> mended true") // 1 is the WAL's
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	info, err := file.Stat()
	must(t, err)
	_, err = file.WriteAt(append(forgotten, make([]byte, info.Size()-int64(len(forgotten)))...), 0)
	must(t, errors.Join(err, file.Close()))
	goOn(t, p, "cut -> nil")
	p.Kill()
	if names := namesAt(t, path); !slices.Equal(names, []string{long, "b"}) {
		t.Errorf("%d rows are there, with %d bytes", len(names), len(strings.Join(names, "")))
	}
	dbtest.Check(t, path)
}

func TestUnknownOutcome_StopsHandleUntilReopened(t *testing.T) {
	names := story(t, "FULL", "open -> nil", "add a -> nil", "fail fsync EIO 1 999 -> armed",
		"add b -> outcome unknown", "names -> outcome unknown", "add c -> outcome unknown", "mend -> mended true",
		"names -> outcome unknown", "close -> nil", "open -> nil", "names -> [a]", "add d -> nil", "names -> [a d]")
	if !slices.Equal(names, []string{"a", "d"}) {
		t.Errorf("after a kill %v are there", names)
	}
}

func TestAnUnknownOutcomeCarriesItsBatch(t *testing.T) {
	story(t, "FULL", "open -> nil", "add a -> nil", "fail fsync EIO 1 999 -> armed",
		"crowd b c -> outcome unknown, outcome unknown", "mend -> mended true", "close -> nil", "open -> nil",
		"batch -> true 0 nil")
}

// Another process keeps the WAL as it is, with what the failed commit left in it. What the handle
// showed once it was opened again still holds after all are killed and the WAL is recovered.
func TestReopeningSettlesWhatTheHandleBeforeCouldNot(t *testing.T) {
	path := numbersAt(t)
	p := live(t, path, "FULL", "open -> nil", "add a -> nil")
	beside := live(t, path, "FULL", "open -> nil", "names -> [a]")
	goOn(t, p, "fail fsync EIO 1 999 -> armed", "add b -> outcome unknown", "close -> nil",
		"open -> outcome unknown",
		"mend -> mended true", "open -> nil", "names -> [a]")
	p.Kill()
	beside.Kill()
	if names := namesAt(t, path); !slices.Equal(names, []string{"a"}) {
		t.Errorf("after a kill %v are there", names)
	}
}

// The connections of a process share a list of its locks. What could not be given back stays in it
// until the last of them is closed, where nobody takes care: then nobody in the process writes any
// more, or nobody in another.
func TestLock_UnreleasedKeepsNobodyOut(t *testing.T) {
	path := numbersAt(t)
	p := live(t, path, "FULL", "open -> nil", "add a -> nil", "names -> [a]")
	other := dbtest.Start(t, "stepper", path, "b")
	names := []string{"a"}
	for n := 1; n < 16; n += 5 { // how many of a transaction's unlocks go well
		for _, errno := range []string{"EIO", "EINTR", "ENOLCK"} {
			goOn(t, p, fmt.Sprintf("fail unlock %s %d %d -> armed", errno, n, n+9))
			names = append(names, fmt.Sprintf("c%02d", len(names)))
			goOn(t, p, "add "+names[len(names)-1]+" -> nil", "names -> "+fmt.Sprint(names), "mend -> mended true")
		}
	}
	goOn(t, p, "fail flock EIO 2 99 -> armed", "add c -> nil", "mend -> mended true") // the turn's unlock
	other.Send("write")
	other.Expect("0")
	other.Wait()
	goOn(t, p, "add d -> nil", "close -> nil")
	p.Wait()
}

func TestLock_FailingCallsFailAtOnce(t *testing.T) {
	for _, errno := range []string{"EIO", "EINTR", "ENOLCK"} {
		story(t, "FULL", "open -> nil", "add a -> nil", "fail lock "+errno+" 1 3 -> armed", "add b -> nil",
			"names -> [a b]",
			"fail lock "+errno+" 1 999 -> armed", "add c -> input/output error", "names -> input/output error",
			"mend -> mended true",
			"names -> [a b]", "add d -> nil", "names -> [a b d]", "close -> nil")
	}
}

// SQLite calls a page corrupt that the disk could not read.
func TestCheck_UnreadableIsNotCalledCorrupt(t *testing.T) {
	path := numbersAt(t)
	p := live(t, path, "FULL", "open -> nil", "add a -> nil", "close -> nil")
	names := "a"
	for _, number := range []int{1, 2, 4} { // of the page of the schema that a new connection reads
		names += fmt.Sprint(" b", number)
		goOn(t, p, "open -> nil", fmt.Sprintf("add b%d -> nil", number),
			fmt.Sprintf("fail pread64 EIO %d 999 -> armed", number),
			"names -> input/output error", "mend -> mended true",
			"names -> ["+names+"]", "close -> nil")
		goOn(t, p, "open -> nil", "names -> ["+names+"]",
			fmt.Sprintf("fail pread64 EIO %d 999 -> armed", number),
			"add c -> input/output error", "mend -> mended true", "close -> nil")
	}
	goOn(t, p, "open -> nil", "add c -> nil", "names -> ["+names+" c]", "close -> nil")
	p.Wait()
}

// A quota may refuse any page, and any wait for the disk, of a new file and of a migration.
func TestOpen_FullQuotaIsErrFull(t *testing.T) {
	path := dbtest.Path(t)
	p := dbtest.Start(t, "unlucky", path, "FULL")
	full := 0
	for _, old := range []bool{false, true} {
		for _, call := range []string{"pwrite64", "fsync", "ftruncate"} {
			for n := 1; n <= 16; n++ {
				name := fmt.Sprint(old, call, n)
				if old {
					d := dbtest.OpenAt(t, path+name, db.Options{SchemaVersion: 24})
					if err := d.Close(); err != nil {
						t.Fatal(err)
					}
				}
				goOn(t, p, fmt.Sprintf("fail %s EDQUOT %d 9999 -> armed", call, n))
				p.Send("open " + name)
				switch got, _ := p.Line(); got {
				case "disk full":
					full++
				case "nil":
					goOn(t, p, "close -> nil")
				default:
					t.Errorf("%s: %s", name, got)
				}
				p.Send("mend")
				if _, ok := p.Line(); !ok {
					t.Fatal("the process ended")
				}
				goOn(t, p, "open "+name+" -> nil", "close -> nil")
			}
		}
	}
	if full < 30 {
		t.Errorf("only %d times was the quota full", full)
	}
}
