package spill

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// harness gives the suite a store over two in memory.
func harness(cfg Config) storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		c := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
		s, err := New(memory.New(memory.Config{Now: c.Now}), memory.New(memory.Config{Now: c.Now}), cfg)
		if err != nil {
			t.Fatal(err)
		}
		<-s.loaded
		t.Cleanup(func() { _ = s.Close() })
		return &storetest.Instance{Store: s, Advance: c.Advance}
	}}
}

func TestContract(t *testing.T)          { storetest.Run(t, harness(Config{})) }
func TestContractPipelined(t *testing.T) { storetest.Run(t, harness(Config{Pipelined: true})) }

func BenchmarkSpill(b *testing.B) { storetest.Bench(b, harness(Config{Pipelined: true})) }
