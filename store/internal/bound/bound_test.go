package bound

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// rig is a store with one bounded topic.
type rig struct {
	Meter
	now    time.Time
	most   int64
	counts Reading
	reads  int
	err    error
}

func newRig() *rig { return &rig{now: time.Unix(1_000_000, 0), most: 3} }

func (r *rig) look() Look {
	return Look{Now: r.now, Most: func(topic string) int64 {
		if topic == "free" {
			return 0
		}
		return r.most
	}, Read: func(string) (Reading, error) {
		r.reads++
		return r.counts, r.err
	}}
}

// admit admits n messages of the topic and returns the receipts, and what ends it.
func (r *rig) admit(t *testing.T, ctx context.Context, topics ...string) ([]store.Receipt, func([]store.Receipt)) {
	t.Helper()
	items, receipts := make([]pawl.Message, len(topics)), make([]store.Receipt, len(topics))
	for i, topic := range topics {
		items[i].Topic = topic
	}
	done, err := r.Admit(ctx, r.look(), items, receipts)
	if err != nil {
		t.Fatal(err)
	}
	return receipts, done
}

func refused(rs []store.Receipt) (n int) {
	for _, r := range rs {
		if r.Err != nil {
			n++
		}
	}
	return n
}

func TestAFreeTopicIsNotRead(t *testing.T) {
	r := newRig()
	rs, done := r.admit(t, t.Context(), "free", "free")
	done(rs)
	if r.reads != 0 || r.topics != nil || refused(rs) != 0 {
		t.Fatal(r.reads, r.topics, rs)
	}
	if allocs := testing.AllocsPerRun(10, func() { _, _ = r.Admit(t.Context(), r.look(), nil, nil) }); allocs > 3 {
		t.Error("allocations:", allocs)
	}
}

func TestTheEstimateIsASecondOld(t *testing.T) {
	r := newRig()
	rs, done := r.admit(t, t.Context(), "a", "a", "free", "a", "a", "a")
	if done(rs); refused(rs) != 2 || rs[4].Err == nil || rs[5].Err == nil {
		t.Fatal(rs)
	}
	r.now = r.now.Add(time.Second - 1)
	if rs, _ = r.admit(t, t.Context(), "a"); refused(rs) != 1 || r.reads != 1 {
		t.Fatal(rs, r.reads)
	}
	r.now, r.counts = r.now.Add(1), Reading{Waiting: 2, Left: 1}
	rs, done = r.admit(t, t.Context(), "a", "a")
	if done(rs); refused(rs) != 1 || r.reads != 2 {
		t.Fatal(rs, r.reads)
	}
	r.now = r.now.Add(-time.Hour) // somebody sets the clock back
	if rs, _ = r.admit(t, t.Context(), "a"); refused(rs) != 0 || r.reads != 3 {
		t.Fatal(rs, r.reads)
	}
}

func TestWhatWasNotStoredTakesNoRoom(t *testing.T) {
	r := newRig()
	for _, answer := range [][]store.Receipt{nil, {{DuplicateOf: "x"}, {Err: errors.New("no")}, {DuplicateOf: "x"}}} {
		rs, done := r.admit(t, t.Context(), "a", "a", "a")
		if done(answer); refused(rs) != 0 {
			t.Fatal(rs)
		}
	}
	r.err = errors.New("unreachable")
	r.now = r.now.Add(time.Minute)
	if _, err := r.Admit(t.Context(), r.look(), []pawl.Message{{Topic: "a"}}, make([]store.Receipt, 1)); err == nil {
		t.Fatal("it was not read")
	}
	if e := r.topics["a"]; e.pending != 0 || e.since != 0 {
		t.Fatalf("%+v", e)
	}
}

func TestWhatIsUnderWayCounts(t *testing.T) {
	r := newRig()
	rs, done := r.admit(t, t.Context(), "a", "a", "a")
	r.now = r.now.Add(time.Minute) // the new reading does not have them
	if again, _ := r.admit(t, t.Context(), "a"); refused(again) != 1 {
		t.Fatal(again)
	}
	done(rs)
	if again, _ := r.admit(t, t.Context(), "a"); refused(again) != 1 {
		t.Fatal(again)
	}
	accepted, _ := r.admit(t, backend.Accepted(t.Context()), "a", "a")
	if refused(accepted) != 0 || r.topics["a"].pending != 2 {
		t.Fatal(accepted)
	}
}

func TestWhenToComeBack(t *testing.T) {
	for _, c := range []struct {
		left int64
		want time.Duration
	}{{0, store.UnknownRetryAfter}, {-5, store.UnknownRetryAfter}, {1, 20 * time.Second}, {4, 5 * time.Second},
		{1000, store.MinRetryAfter}} {
		r := newRig()
		r.counts = Reading{Waiting: 4, Left: 100}
		full, err := r.Full(r.look(), "a", "free")
		if err != nil || len(full) != 1 || full[0].RetryAfter != store.UnknownRetryAfter {
			t.Fatal(full, err)
		}
		r.now, r.counts.Left = r.now.Add(10*time.Second), 100+c.left
		if full, err = r.Full(r.look(), "a"); err != nil || len(full) != 1 || full[0].RetryAfter != c.want {
			t.Errorf("%d left: %+v, %v; want %v", c.left, full, err, c.want)
		}
	}
	r := newRig()
	r.counts.Waiting = 1_000_000
	_, _ = r.Full(r.look(), "a")
	r.now, r.counts.Left = r.now.Add(time.Second), 1
	if full, _ := r.Full(r.look(), "a"); full[0].RetryAfter != store.MaxRetryAfter {
		t.Error(full[0])
	}
}

func TestManyAppendAtOnce(t *testing.T) {
	r := newRig()
	r.most = 100
	look := r.look()
	look.Read = func(string) (Reading, error) { return Reading{}, nil }
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored := 0
	for range 8 {
		wg.Go(func() {
			for range 50 {
				rs := make([]store.Receipt, 1)
				done, err := r.Admit(t.Context(), look, []pawl.Message{{Topic: "a"}}, rs)
				if err != nil {
					t.Error(err)
					return
				}
				if done(rs); rs[0].Err == nil {
					mu.Lock()
					stored++
					mu.Unlock()
				}
			}
		})
	}
	if wg.Wait(); stored != 100 {
		t.Fatal(stored)
	}
}
