package enginetest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dispatch/enginetest"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/storetest"
)

func TestMemory(t *testing.T) {
	enginetest.Run(t, storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		s := memory.New(memory.Config{})
		t.Cleanup(func() { _ = s.Close() })
		return &storetest.Instance{Store: s}
	}})
}

// A clock that stands still until it is moved is moved along with ours.
func TestMemoryWithAClockOfTheSuite(t *testing.T) {
	enginetest.Run(t, storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		var mu sync.Mutex
		now := time.Now()
		s := memory.New(memory.Config{Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
		t.Cleanup(func() { _ = s.Close() })
		return &storetest.Instance{Store: s, Advance: func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(d)
		}}
	}})
}
