package spill

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/dispatch/enginetest"
	"github.com/pawl-dev/pawl/store"
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

func TestContract(t *testing.T) { storetest.Run(t, harness(Config{})) }
func TestEngine(t *testing.T)   { enginetest.Run(t, harness(Config{})) }

func BenchmarkSpill(b *testing.B) { storetest.Bench(b, harness(Config{})) }

// TestReceiptsTellWhatIsStored: however the primary store fails, the receipts tell what
// is kept, also when the fallback store takes nothing.
func TestReceiptsTellWhatIsStored(t *testing.T) {
	for name, full := range map[string]error{"spilled": nil, "lost": &store.Error{Op: "append", Code: store.ErrFull}} {
		t.Run(name, func(t *testing.T) {
			storetest.Receipts(t, func(t testing.TB, inner store.Store) (store.Store, func(string) bool) {
				fallback := &flaky{Store: memory.New(memory.Config{}), err: full}
				s := open(t, inner, fallback, Config{})
				<-s.loaded
				return s, storetest.Keepers(t, fallback, inner) // in the direction in which rows move
			})
		})
	}
}
