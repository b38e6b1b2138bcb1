package wecom

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// heldStore calls a function after each append, before its answer is known.
type heldStore struct {
	store.Store
	appends atomic.Int32
	after   func()
}

func (h *heldStore) Unwrap() store.Store { return h.Store }

func (h *heldStore) Append(ctx context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	r, err := h.Store.Append(ctx, b)
	h.appends.Add(1)
	if h.after != nil {
		h.after()
	}
	return r, err
}

func TestRingsShareACall(t *testing.T) {
	st, err := open.Open(t.Context(), open.Config{URL: "sqlite:" + t.TempDir() + "/pawl.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	held := &heldStore{Store: st}
	b := newBells(held, "kefu.pull", slog.New(slog.DiscardHandler))
	ring := func() {
		if err := b.ring(t.Context(), doorbell{Account: "wk1", Token: "ENC"}); err != nil {
			t.Error(err)
		}
	}
	claim := func() (n int) {
		ds, err := st.Claim(t.Context(), []store.Want{{Topic: "kefu.pull", Limit: 10}},
			store.Lease{For: time.Minute, Owner: "test"})
		if err != nil {
			t.Error(err)
		}
		for i := range ds {
			ack := store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack}
			if _, err := st.Settle(t.Context(), store.NewBatch(ack)); err != nil {
				t.Error(err)
			}
		}
		return len(ds)
	}
	const late = 50
	var wg sync.WaitGroup
	held.after = func() {
		// While the first one is being stored more ring; and its pull begins before they are answered.
		held.after = nil
		for range late {
			wg.Go(ring)
		}
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			b.mu.Lock()
			waits = b.next["ring/wk1"] != nil
			b.mu.Unlock()
		}
		if n := claim(); n != 1 {
			t.Errorf("%d doorbells were claimed", n)
		}
	}
	ring()
	wg.Wait()
	if n := held.appends.Load(); n != 2 {
		t.Errorf("%d rings came to %d appends", 1+late, n)
	}
	ring() // that doorbell is stored, and was not claimed: nothing is written
	if n := held.appends.Load(); n != 2 {
		t.Errorf("a ring beside a doorbell that waits came to an append")
	}
	if n := claim(); n != 1 {
		t.Errorf("what rang after the pull began has left %d doorbells", n)
	}
	ring()
	if n := claim(); n != 1 {
		t.Errorf("a ring after the pull began has left %d doorbells", n)
	}
}

// What the store does not take is logged once for all callbacks that share the call.
func TestBellsThatAreNotStoredAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBells(&awayStore{}, "kefu.pull", slog.New(slog.NewTextHandler(&log, nil)))
		b.busy["ring/wk1"] = true // a call is under way
		var failed atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if b.ring(t.Context(), doorbell{Account: "wk1", Token: "t"}) != nil {
					failed.Add(1)
				}
			})
		}
		synctest.Wait()
		b.work(t.Context(), "ring/wk1")
		all.Wait()
		if failed.Load() != 10 || strings.Count(log.String(), "level=ERROR") != 1 {
			t.Errorf("%d callbacks: %s", failed.Load(), &log)
		}
	})
}
