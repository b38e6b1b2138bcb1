package storetest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/storetest"
)

// clock is a clock that moves when it is told to. Safe for concurrent use.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// inMemory opens memory stores, as wrap wraps them; nil wraps nothing.
func inMemory(wrap func(store.Store, *clock) store.Store) storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		c := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
		var s store.Store = memory.New(memory.Config{Now: c.Now})
		if wrap != nil {
			s = wrap(s, c)
		}
		t.Cleanup(func() { _ = s.Close() })
		return &storetest.Instance{Store: s, Advance: c.Advance}
	}}
}

func TestMemory(t *testing.T) { storetest.Run(t, inMemory(nil)) }

func BenchmarkMemory(b *testing.B) { storetest.Bench(b, inMemory(nil)) }
