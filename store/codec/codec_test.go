package codec_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/enginetest"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
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

func overSQLite(wrapping func(t testing.TB) wrap) storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		var ahead atomic.Int64
		c := sqlite.Config{
			Path: filepath.Join(t.TempDir(), "pawl.db"), Synchronous: sqlite.Normal,
			Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		}
		wrap := wrapping(t)
		open := func(t testing.TB) store.Store {
			t.Helper()
			s, err := sqlite.Open(context.WithoutCancel(t.Context()), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return wrap(t, s)
		}
		in := &storetest.Instance{
			Store: open(t), Advance: func(d time.Duration) { ahead.Add(int64(d)) }, Peer: open, Crash: open,
			TxStalls: "whose transaction is open, all others wait",
		}
		in.Reopen = func(t testing.TB) store.Store {
			if err := in.Store.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t)
		}
		in.Tx = func(t testing.TB, do func(func(store.Batch[pawl.Message]) ([]store.Receipt, error)) bool) {
			inTx(t, in.Store, c.Path, do)
		}
		return in
	}}
}

// inTx runs do in a transaction of an application that has the file open.
func inTx(t testing.TB, s store.Store, path string, do func(func(store.Batch[pawl.Message]) ([]store.Receipt,
	error)) bool) {
	t.Helper()
	appender, ok := store.As[store.TxAppender[*sql.Tx]](s)
	if !ok {
		t.Fatal("the store has no AppendTx")
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	commit := do(func(b store.Batch[pawl.Message]) ([]store.Receipt, error) {
		return appender.AppendTx(context.Background(), tx, b)
	})
	if !commit {
		return
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestContractInFiles keeps every body in a file.
func TestContractInFiles(t *testing.T) {
	storetest.Run(t, overMemory(greedy(codec.Config{Compression: codec.Zstd, Format: codec.Msgpack}, 1)))
}

// TestContractInside compresses every body, also where it becomes longer.
func TestContractInside(t *testing.T) {
	for _, c := range []codec.Compression{codec.LZ4, codec.Zstd} {
		t.Run(string(c), func(t *testing.T) {
			storetest.Run(t, overMemory(greedy(codec.Config{Compression: c, Format: codec.Msgpack}, 0)))
		})
	}
}

// TestContractOverSQLite has several processes, restarts and transactions.
func TestContractOverSQLite(t *testing.T) {
	h := overSQLite(greedy(codec.Config{Compression: codec.Zstd, Format: codec.Msgpack}, 40))
	h.Only = []string{"processes", "durability", "transactions"}
	storetest.Run(t, h)
}

// TestContractOfTheUsual is the codec as it is set up in earnest.
func TestContractOfTheUsual(t *testing.T) {
	storetest.Run(t, overMemory(func(t testing.TB) wrap {
		c := codec.Config{Compression: codec.Zstd, Format: codec.Msgpack, Blobs: filepath.Join(t.TempDir(), "blobs"),
			Offload: 64 << 10}
		return func(t testing.TB, inner store.Store) store.Store {
			t.Helper()
			s, err := codec.New(inner, c)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}))
}

func TestEngine(t *testing.T) {
	enginetest.Run(t, overMemory(greedy(codec.Config{Compression: codec.LZ4, Format: codec.Msgpack}, 30)))
}

// TestReceiptsTellWhatIsStored: a codec passes on what its store says of a batch that
// failed.
func TestReceiptsTellWhatIsStored(t *testing.T) {
	storetest.Receipts(t, func(t testing.TB, inner store.Store) (store.Store, func(string) bool) {
		s, err := codec.New(inner, codec.Config{Compression: codec.Zstd})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s, nil
	})
}
