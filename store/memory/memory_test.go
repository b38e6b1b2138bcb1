package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/storetest"
)

// harness opens a store whose clock the suite moves.
func harness() storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		var ahead atomic.Int64
		s := memory.New(memory.Config{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		t.Cleanup(func() { _ = s.Close() })
		return &storetest.Instance{Store: s, Advance: func(d time.Duration) { ahead.Add(int64(d)) }}
	}}
}

func TestContract(t *testing.T) { storetest.Run(t, harness()) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, harness()) }
