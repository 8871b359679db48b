package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// scoutEvery is how often the hosts are asked which is the primary, while one is in use. Tests
// shorten it.
var scoutEvery = 2 * time.Second

const (
	// scoutPatience is how long a round waits for their answers.
	scoutPatience = 2 * time.Second
	// knownFor is how old an answer may be for a read over an idle connection.
	knownFor = 3 * scoutPatience
	// silentFor is the number of rounds without an answer after which the only host of an address
	// is asked whether it lives.
	silentFor = 5
)

// A scout watches the connections of a handle, and ends those to a primary that was replaced.
// Neither such a primary nor the TCP connection shows that: its host may be stopped, or cut off
// from the other hosts only. The primary then does not answer, or answers from old data, and
// acknowledges no commit. So the scout asks the other hosts, over connections of its own. A caller
// whose connection it ended finds the connection lost, and continues over another one.
type scout struct {
	address  *Address
	every    time.Duration
	patience time.Duration // with a server that does not answer, and that no other one has replaced

	mu       sync.Mutex
	newest   string // the highest timeline that a primary has named
	lines    map[*line]struct{}
	answered time.Time       // when a primary did
	refuses  map[string]bool // by host: it was asked last for a connection, and refused it
	running  bool
	closed   bool
	stop     context.CancelFunc
	stopped  chan struct{}

	asking chan struct{} // has room for one asking goroutine
	posts  []*wire       // the connections to ask over, by host; nil without one; used while asking
	asked  time.Time
}

// A line is the socket of a connection.
type line struct {
	net.Conn
	host     string
	timeline string       // of the server when it was connected
	waits    atomic.Int64 // since when an answer is awaited, in nanoseconds of this process; 0: none is
	used     atomic.Bool  // since the scout looked last
	ended    atomic.Bool  // by the scout
}

// started is the origin of this process's times, which setting the clock does not change.
var started = time.Now()

// Read waits for data from the server.
func (l *line) Read(b []byte) (int, error) {
	l.used.Store(true)
	l.waits.Store(int64(time.Since(started)))
	defer l.waits.Store(0)
	return l.Conn.Read(b)
}

// Write sends data to the server. That the server has closed the connection is left to the next Read: the
// reason is there to be read, and may be no failure of the connection.
func (l *line) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	if errors.Is(err, unix.EPIPE) {
		return len(b), nil
	}
	return n, err
}

// end makes the user of the connection find it lost.
func (l *line) end() {
	l.ended.Store(true)
	_ = l.Close()
}

func (l *line) silence(now time.Time) time.Duration {
	if since := l.waits.Load(); since != 0 {
		return now.Sub(started) - time.Duration(since)
	}
	return 0
}

func newScout(a *Address) *scout {
	return &scout{
		address: a, every: scoutEvery, patience: primaryPatience, refuses: map[string]bool{},
		lines:  map[*line]struct{}{},
		asking: make(chan struct{}, 1), posts: make([]*wire, len(a.hosts)),
	}
}

// known is the highest timeline that a primary has named; "" before the first one.
func (s *scout) known() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// saw records a primary's timeline, and reports whether no newer one is known.
func (s *scout) saw(timeline string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if timeline < s.newest {
		return false
	}
	s.answered = time.Now()
	if timeline > s.newest {
		s.newest = timeline
		for l := range s.lines {
			if l.timeline < timeline {
				l.end()
			}
		}
	}
	return true
}

// add puts a connection under the scout's watch. leave ends that.
func (s *scout) add(l *line) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.timeline < s.newest {
		l.end() // replaced since it was opened
	}
	s.lines[l] = struct{}{}
	if !s.running && !s.closed {
		s.running = true
		ctx, stop := context.WithCancel(background)
		s.stop, s.stopped = stop, make(chan struct{})
		go s.run(ctx, s.stopped)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.lines, l)
	}
}

// run asks the hosts until ctx ends.
func (s *scout) run(ctx context.Context, stopped chan<- struct{}) {
	defer close(stopped)
	clock := time.NewTicker(s.every)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		if s.wanted() {
			s.ask(ctx, 0)
			s.endSilent()
		}
	}
}

// wanted reports whether to ask the hosts: a host was asked something and there are other hosts,
// or the only host is silent.
func (s *scout) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	used, silent, now := false, false, time.Now()
	for l := range s.lines {
		used = l.used.Swap(false) || used || l.waits.Load() != 0
		silent = silent || l.silence(now) > silentFor*s.every
	}
	return silent || used && len(s.posts) > 1
}

// ask asks the hosts, and waits for all of them, or until scoutPatience ends. An answer no older
// than goodFor will do.
func (s *scout) ask(ctx context.Context, goodFor time.Duration) {
	if s.askedWithin(goodFor) {
		return
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return
	}
	if s.askedWithin(goodFor) { // another caller has asked since
		return
	}
	within, cancel := context.WithTimeout(ctx, scoutPatience)
	defer cancel()
	var all sync.WaitGroup
	for i := range s.posts {
		all.Go(func() {
			w := s.posts[i]
			if w == nil || w.conn.IsClosed() {
				var err error
				w, err = s.address.hosts[i].dial(within)
				s.dialled(s.address.hosts[i].name, err)
				if s.posts[i] = w; err != nil {
					return
				}
			}
			timeline, err := w.primaryOf(within, "", s.address.timeline())
			switch {
			case err != nil:
				_ = w.Close()
				s.posts[i] = nil
			case timeline != "":
				s.saw(timeline)
			}
		})
	}
	all.Wait()
	if ctx.Err() == nil {
		s.mu.Lock()
		s.asked = time.Now()
		s.mu.Unlock()
	}
}

// dialled records whether a host refused a connection: such a host lives, and its earlier
// connections may, too. An error of a host that is starting or stopping says nothing.
func (s *scout) dialled(host string, err error) {
	state := state(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses[host] = state != "" && !strings.HasPrefix(state, "57P")
}

// endSilent ends the connections that have been silent for longer than patience, if no primary has
// answered for that long either. It spares those to hosts that refuse new ones, which live.
func (s *scout) endSilent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.answered) < s.patience {
		return
	}
	for l := range s.lines {
		if l.silence(now) > s.patience && !s.refuses[l.host] {
			l.end()
		}
	}
}

func (s *scout) askedWithin(within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.asked) < within
}

// look asks the hosts unless they were asked lately: before a read over an idle connection, whose
// server may have been replaced hours ago.
func (s *scout) look(ctx context.Context) {
	if len(s.posts) > 1 {
		s.ask(ctx, knownFor)
	}
}

// close ends its own connections.
func (s *scout) close() {
	s.mu.Lock()
	s.closed = true
	running := s.running
	s.mu.Unlock()
	if running {
		s.stop()
		<-s.stopped
	}
	s.asking <- struct{}{}
	defer func() { <-s.asking }()
	for i, w := range s.posts {
		if w != nil {
			_ = w.Close()
			s.posts[i] = nil
		}
	}
}
