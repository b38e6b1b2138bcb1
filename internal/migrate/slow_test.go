package migrate

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// faulty is a store whose appends can be slow, or which can be away.
type faulty struct {
	*memory.Store
	slow atomic.Int64
	away atomic.Bool
}

func (f *faulty) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	if f.away.Load() {
		return nil, errUnreachable
	}
	time.Sleep(time.Duration(f.slow.Load())) // whatever becomes of who asked
	return f.Store.Append(ctx, batch)
}

func (f *faulty) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	if f.away.Load() {
		return nil, errUnreachable
	}
	return f.Store.Claim(ctx, wants, lease)
}

func (f *faulty) Stats(ctx context.Context, topics ...string) ([]store.TopicStats, error) {
	if f.away.Load() {
		return nil, errUnreachable
	}
	return f.Store.Stats(ctx, topics...)
}

// onFaultyRoad is as onRoad, with a new store that has faults.
func onFaultyRoad(t *testing.T, test func(*road, *faulty)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &road{T: t, old: memory.New(memory.Config{}), new: memory.New(memory.Config{})}
		f := &faulty{Store: r.new}
		var err error
		if r.through, err = mirror.New(r.old, f, mirror.Config{}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.through.Close() }()
		if r.traffic, err = New(t.Context(), r.old, f, "tester", "memory:"); err != nil {
			t.Fatal(err)
		}
		test(r, f)
	})
}

// TestACopyMayBeSlow: one that arrives when the new store is in charge is handed to nobody.
func TestACopyMayBeSlow(t *testing.T) {
	onFaultyRoad(t, func(r *road, f *faulty) {
		t := r.T
		r.copies()
		f.slow.Store(int64(40 * time.Second))
		_, err := r.through.Append(t.Context(), store.NewBatch(letter("k", 1)))
		r.must(err)
		time.Sleep(time.Second) // it is on its way
		if done := r.work(); len(done) != 1 {
			t.Errorf("%v were done", done)
		}
		moved, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		if err != nil || moved.Stage != mirror.Moved {
			t.Errorf("%+v, %v", moved, err)
		}
		time.Sleep(time.Minute)
		if done := r.work(); len(done) != 0 {
			t.Errorf("done again are %v", done)
		}
	})
}

// TestRollBackWantsTheNewStore: while it is away nothing is changed.
func TestRollBackWantsTheNewStore(t *testing.T) {
	onFaultyRoad(t, func(r *road, f *faulty) {
		t := r.T
		r.copies()
		_, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		r.must(err)
		f.away.Store(true)
		moved, err := r.traffic.RollBack(t.Context(), "mail", Moving{})
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "nothing was changed") ||
			moved.Stage != mirror.Moved {
			t.Errorf("%+v, %v", moved, err)
		}
		f.away.Store(false)
		if moved, err = r.traffic.RollBack(t.Context(), "mail", Moving{}); err != nil || moved.Stage != mirror.Dual {
			t.Errorf("when it is back: %+v, %v", moved, err)
		}
	})
}

var errUnreachable = &store.Error{Op: "open postgres", Code: store.ErrUnavailable,
	Err: errors.New("connection refused")}
