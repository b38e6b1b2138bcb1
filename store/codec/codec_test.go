package codec_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dispatch/enginetest"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
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

// wrap makes a codec over a store.
type wrap func(t testing.TB, inner store.Store) store.Store

// greedy encodes everything that it can. All stores of a test that have the same
// data have the same folder.
func greedy(c codec.Config, offload int) func(t testing.TB) wrap {
	return func(t testing.TB) wrap {
		c := c
		if offload > 0 {
			c.Blobs = filepath.Join(t.TempDir(), "blobs")
		}
		return func(t testing.TB, inner store.Store) store.Store {
			t.Helper()
			s, err := codec.NewGreedy(inner, c, offload)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
}

func overMemory(wrapping func(t testing.TB) wrap) storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		c := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
		s := wrapping(t)(t, memory.New(memory.Config{Now: c.Now}))
		t.Cleanup(func() { _ = s.Close() })
		return &storetest.Instance{Store: s, Advance: c.Advance}
	}}
}

// TestContract is of bodies that are compressed, also where they become longer, and kept
// in files where that is worth it.
func TestContract(t *testing.T) {
	storetest.Run(t, overMemory(greedy(codec.Config{Compress: true}, 40)))
}

func TestEngine(t *testing.T) {
	enginetest.Run(t, overMemory(greedy(codec.Config{Compress: true}, 30)))
}

// TestReceiptsTellWhatIsStored: a codec passes on what its store says of a batch that
// failed.
func TestReceiptsTellWhatIsStored(t *testing.T) {
	storetest.Receipts(t, func(t testing.TB, inner store.Store) (store.Store, func(string) bool) {
		s, err := codec.New(inner, codec.Config{Compress: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s, nil
	})
}
