package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/enginetest"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
	"github.com/pawl-dev/pawl/store/storetest"
)

// harness has a mirror that copies everything.
func harness() storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		var ahead atomic.Int64
		c := memory.Config{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
		s, err := mirror.New(memory.New(c), memory.New(c), mirror.Config{All: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return &storetest.Instance{Store: s, Advance: func(d time.Duration) { ahead.Add(int64(d)) }}
	}}
}

func TestContract(t *testing.T) { storetest.Run(t, harness()) }

func TestEngine(t *testing.T) { enginetest.Run(t, harness()) }

// TestCopies: a copy has everything that the original has, and nothing is copied that
// the primary did not store.
func TestCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{All: true})
		whole := pawl.Message{ID: "whole", Topic: "mail", Key: []byte{0, 255}, Priority: 7, Body: []byte("dear"),
			Headers: map[string]string{"trace": "abc"}}
		receipts := appendAll(t, p, whole, pawl.Message{Topic: "mail", Body: []byte("no id")},
			pawl.Message{Topic: "mail", Priority: 101}, pawl.Message{Topic: "mail", Unique: pawl.Unique{Key: "once"}})
		if receipts[2].Err == nil {
			t.Fatal("the primary took what no store takes")
		}
		again := appendAll(t, p, whole, pawl.Message{Topic: "mail", Unique: pawl.Unique{Key: "once"}})
		if again[0].DuplicateOf != "whole" || again[1].DuplicateOf != receipts[3].ID {
			t.Fatalf("no duplicates: %+v", again)
		}
		flush(t, p.Store)
		if n := count(listed(t, p.new, "mail")); n != 3 {
			t.Errorf("%d copies, want 3", n)
		}
		r, err := p.new.Get(t.Context(), "whole")
		if err != nil || !bytes.Equal(r.Key, whole.Key) || r.Priority != 7 || string(r.Body) != "dear" ||
			r.Headers["trace"] != "abc" {
			t.Errorf("the copy is %+v, %v", r, err)
		}
		if _, err := p.new.Get(t.Context(), receipts[1].ID); err != nil {
			t.Errorf("a message that got its id from the primary: %v", err)
		}
		if st := p.Stats()["mail"]; st.Offered != 3 || st.Written != 3 || st.Missed != 0 {
			t.Errorf("stats are %+v", st)
		}
	})
}

// TestCallerKeepsItsBytes: a copy is of what was appended, whatever the caller does to
// its buffers afterwards.
func TestCallerKeepsItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{All: true})
		p.target.slow.Store(int64(time.Second))
		m := pawl.Message{ID: "one", Topic: "mail", Key: []byte("key"), Body: []byte("body"),
			Headers: map[string]string{"h": "v"}}
		appendAll(t, p, m)
		m.Key[0], m.Body[0], m.Headers["h"] = 'X', 'X', "X"
		flush(t, p.Store)
		if r, err := p.new.Get(t.Context(), "one"); err != nil || string(r.Key) != "key" || string(r.Body) != "body" ||
			r.Headers["h"] != "v" {
			t.Errorf("the copy is %+v, %v", r.Message, err)
		}
	})
}

// TestOrder: the copies of a key are in the order of appending, with a mirrored store
// that fails now and then, and many keys at once.
func TestOrder(t *testing.T) {
	const keys, each = 20, 50
	p := newPair(t, mirror.Config{All: true})
	stop := make(chan struct{})
	var flips sync.WaitGroup
	flips.Go(func() {
		for {
			select {
			case <-stop:
				p.target.down.Store(false)
				return
			case <-time.After(3 * time.Millisecond):
				p.target.down.Store(!p.target.down.Load())
			}
		}
	})
	var wg sync.WaitGroup
	for k := range keys {
		wg.Go(func() {
			for n := range each {
				if _, err := p.Append(context.Background(), store.NewBatch(mail(fmt.Sprint("key", k), n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	flips.Wait()
	flush(t, p.Store)
	got := listed(t, p.new, "mail")
	if count(got) != keys*each {
		t.Errorf("%d copies, want %d", count(got), keys*each)
	}
	for key, of := range got {
		if !slices.IsSorted(of) {
			t.Errorf("key %s is in the order %v", key, of)
		}
	}
}

// TestDown: a mirrored store that cannot be reached neither slows the primary down nor
// fails it; what has no room is counted, the rest follows in order.
func TestDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		p := newPair(t, mirror.Config{All: true, Count: 10, Report: func(err error) { told = append(told, err) }})
		p.target.down.Store(true)
		began := time.Now()
		for n := range 15 {
			appendAll(t, p, mail("ann", n))
		}
		if time.Since(began) != 0 {
			t.Errorf("appending took %v", time.Since(began))
		}
		time.Sleep(time.Minute)
		if st := p.Stats()["mail"]; st.Missed != 5 || st.Waiting() != 10 || !strings.Contains(st.LastError, "no route") {
			t.Errorf("stats are %+v", st)
		}
		p.target.down.Store(false)
		flush(t, p.Store)
		var want []string
		for n := range 10 {
			want = append(want, mail("ann", n).ID)
		}
		same(t, "copies", listed(t, p.new, "mail")["ann"], want)
		if count(listed(t, p.old, "mail")) != 15 {
			t.Error("the primary has not got all")
		}
		synctest.Wait()
		if len(told) == 0 {
			t.Error("nobody was told")
		}
	})
}

// TestBytes: the bound is in bytes, too, but a large message alone fits.
func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{All: true, Bytes: 100})
		p.target.slow.Store(int64(time.Second))
		large := pawl.Message{Topic: "mail", Body: make([]byte, 500)}
		appendAll(t, p, large)
		appendAll(t, p, pawl.Message{Topic: "mail", Body: make([]byte, 50)})
		flush(t, p.Store)
		appendAll(t, p, pawl.Message{Topic: "mail", Body: make([]byte, 50)})
		flush(t, p.Store)
		if st := p.Stats()["mail"]; st.Written != 2 || st.Missed != 1 {
			t.Errorf("stats are %+v", st)
		}
	})
}

// TestClose writes what waits, and says what it could not write.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{All: true, CloseWait: time.Minute})
		p.target.slow.Store(int64(10 * time.Second))
		for n := range 3 {
			appendAll(t, p, mail("ann", n))
		}
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if st := p.Stats()["mail"]; st.Written != 3 {
			t.Errorf("stats are %+v", st)
		}
		q := newPair(t, mirror.Config{All: true, CloseWait: 5 * time.Second})
		q.target.slow.Store(int64(time.Hour))
		appendAll(t, q, mail("ann", 1))
		began := time.Now()
		if err := q.Close(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a message has no copy, and Close says %v", err)
		}
		if st := q.Stats()["mail"]; st.Missed != 1 || time.Since(began) != 5*time.Second {
			t.Errorf("after %v stats are %+v", time.Since(began), st)
		}
	})
}

// TestRefused: what the mirrored store refuses is counted, and holds nothing up.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{All: true})
		appendAll(t, p.new, pawl.Message{ID: "other", Topic: "mail", Unique: pawl.Unique{Key: "once"}})
		appendAll(t, p, pawl.Message{Topic: "mail", Unique: pawl.Unique{Key: "once"}}, mail("ann", 1))
		appendAll(t, p.new, mail("ann", 2))
		appendAll(t, p, mail("ann", 2))
		flush(t, p.Store)
		if st := p.Stats()["mail"]; st.Refused != 1 || st.Written != 1 || st.There != 1 {
			t.Errorf("stats are %+v", st)
		}
	})
}

// TestEmits: what an ack emits is copied under its derived ids; a retry emits nothing.
func TestEmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{All: true})
		appendAll(t, p, mail("ann", 1))
		ds := claim(t, p, "mail", 1)
		ack(t, p, ds, pawl.Message{Topic: "post", Body: []byte("a")}, pawl.Message{Topic: "post", Body: []byte("b")})
		stale, err := p.Settle(t.Context(), store.NewBatch(store.Settlement{Token: ds[0].Token, ID: "stale",
			Verdict: store.Ack, Emit: []pawl.Message{{Topic: "post"}}}))
		if err != nil || len(stale) != 1 || !errors.Is(stale[0].Err, pawl.ErrLeaseLost) {
			t.Fatalf("a stale token: %v, %v", stale, err)
		}
		flush(t, p.Store)
		for i := range 2 {
			if _, err := p.new.Get(t.Context(), pawl.EmitID(ds[0].ID, i)); err != nil {
				t.Errorf("emitted message %d: %v", i, err)
			}
		}
		if st := p.Stats()["post"]; st.Written != 2 {
			t.Errorf("stats are %+v", st)
		}
	})
}

// TestConfig reports all that is wrong at once.
func TestConfig(t *testing.T) {
	_, err := mirror.New(memory.New(memory.Config{}), memory.New(memory.Config{}),
		mirror.Config{Count: -1, Bytes: -1, CloseWait: -1})
	for _, word := range []string{"count", "bytes", "close wait"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %s", err, word)
		}
	}
	if !errors.Is(err, store.ErrInvalid) {
		t.Error("no store.ErrInvalid")
	}
}
