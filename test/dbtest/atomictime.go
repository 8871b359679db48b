package dbtest

import (
	"sync/atomic"
	"time"
)

type atomicTime struct{ p atomic.Pointer[time.Time] }

func (a *atomicTime) store(t time.Time) { a.p.Store(&t) }

func (a *atomicTime) load() time.Time { return *a.p.Load() }
