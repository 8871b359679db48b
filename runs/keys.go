package runs

import "sync"

// keyCache holds the keys of runs that this process has written to, so that an append need not look
// a run up by its ids. An entry cannot become wrong, since a key is never reused; but the run may
// be gone.
type keyCache struct {
	mu    sync.RWMutex
	byRef map[RunRef]int64
}

// keyCacheSize is more than the runs that one process writes at a time. A full cache is emptied.
const keyCacheSize = 4096

func (c *keyCache) find(ref RunRef) (key int64, known bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key, known = c.byRef[ref]
	return key, known
}

// keep stores the key of a run whose row is committed: a transaction that rolls back passes its key
// on to another run.
func (c *keyCache) keep(ref RunRef, key int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRef == nil || len(c.byRef) >= keyCacheSize {
		c.byRef = make(map[RunRef]int64)
	}
	c.byRef[ref] = key
}
