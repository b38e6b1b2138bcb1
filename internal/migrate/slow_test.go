package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
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

// TestCutOverWaitsForACopy that is on its way: it must not arrive when the new store is
// in charge.
func TestCutOverWaitsForACopy(t *testing.T) {
	for _, c := range []struct {
		slow time.Duration
		ends bool
	}{{8 * time.Second, true}, {40 * time.Second, false}} {
		onFaultyRoad(t, func(r *road, f *faulty) {
			t := r.T
			r.copies()
			f.slow.Store(int64(c.slow))
			go func() {
				time.Sleep(1900 * time.Millisecond) // the topic is closed a moment later
				if _, err := r.through.Append(context.Background(), store.NewBatch(letter("k", 1))); err != nil {
					t.Error(err)
				}
			}()
			var done []string
			stop, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
						done = append(done, r.work()...)
					}
				}
			}()
			moved, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: 2 * time.Second})
			if c.ends && (err != nil || moved.Stage != mirror.Moved) ||
				!c.ends && (!errors.Is(err, ErrUnfinished) || moved.Stage != mirror.Dual) {
				t.Errorf("a copy takes %v: %+v, %v", c.slow, moved, err)
			}
			time.Sleep(time.Minute)
			close(stop)
			<-ended
			if len(done) != 1 {
				t.Errorf("a copy takes %v: %v were done", c.slow, done)
			}
		})
	}
}

// TestCutOverWantsNoDeadWriter that had copies to send: until they cannot arrive any
// more, it changes nothing.
func TestCutOverWantsNoDeadWriter(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		said, err := json.Marshal(mirror.Stats{Waiting: 2, Topics: map[string]*mirror.TopicStats{"mail": {Offered: 3,
			Written: 1}}})
		r.must(err)
		_, err = r.old.PutState(t.Context(), "traffic/writer/dead", said, store.AnyVersion, "dead")
		r.must(err)
		time.Sleep(mirror.Silent + time.Second)
		moved, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		if !errors.Is(err, store.ErrConflict) || !errors.Is(err, ErrUnfinished) || moved.Stage != mirror.Dual ||
			!strings.Contains(err.Error(), "had 2 copies to send") {
			t.Errorf("%+v, %v", moved, err)
		}
		time.Sleep(mirror.Gone)
		if moved, err = r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second}); err != nil ||
			moved.Stage != mirror.Moved {
			t.Errorf("when it is long dead: %+v, %v", moved, err)
		}
		if ps := r.problems(); len(ps) != 0 {
			t.Errorf("nobody needs copies any more, but %v", ps)
		}
		_, err = r.traffic.RollBack(t.Context(), "mail", Moving{})
		r.must(err)
		if ps := r.problems(); len(ps) != 0 {
			t.Errorf("its copies were of a time before the cut-over, but %v", ps)
		}
	})
}

// cutOff is the old store as a process sees it that may lose its way there.
type cutOff struct {
	*memory.Store
	away atomic.Bool
}

func (c *cutOff) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	if c.away.Load() {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, errUnreachable) }
	}
	return c.Store.ListState(ctx, prefix, after)
}

func (c *cutOff) GetState(ctx context.Context, key string) (store.Entry, error) {
	if c.away.Load() {
		return store.Entry{}, errUnreachable
	}
	return c.Store.GetState(ctx, key)
}

func (c *cutOff) PutState(ctx context.Context, key string, value []byte, version int64,
	who string) (store.Entry, error) {
	if c.away.Load() {
		return store.Entry{}, errUnreachable
	}
	return c.Store.PutState(ctx, key, value, version, who)
}

// TestCutOverWaitsForWhoIsCutOff from the old store: its last call to the new one may take
// long, and must not end when that is in charge.
func TestCutOverWaitsForWhoIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &road{T: t, old: memory.New(memory.Config{}), new: memory.New(memory.Config{})}
		from, target := &cutOff{Store: r.old}, &faulty{Store: r.new}
		var err error
		r.through, err = mirror.New(from, target, mirror.Config{})
		r.must(err)
		defer func() { _ = r.through.Close() }()
		r.traffic, err = New(t.Context(), r.old, r.new, "tester", "memory:")
		r.must(err)
		r.copies()
		target.slow.Store(int64(58 * time.Second))
		_, err = r.through.Append(t.Context(), store.NewBatch(letter("k", 1)))
		r.must(err)
		time.Sleep(4 * time.Second) // it has said so
		if done := r.work(); len(done) != 1 {
			t.Fatalf("done are %v", done)
		}
		from.away.Store(true)
		time.Sleep(40 * time.Second)
		moved, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		if !errors.Is(err, store.ErrConflict) || moved.Stage != mirror.Dual {
			t.Errorf("%+v, %v", moved, err)
		}
		time.Sleep(mirror.Gone)
		target.slow.Store(0)
		moved, err = r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		if err != nil || moved.Stage != mirror.Moved {
			t.Errorf("later: %+v, %v", moved, err)
		}
		from.away.Store(false)
		time.Sleep(settleTime)
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

// deafened is a new store that stores late what it was asked for, whatever becomes of who
// asked. It outlives the mirror over it.
type deafened struct{ *memory.Store }

func (deafened) Close() error { return nil }

func (d deafened) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	time.AfterFunc(40*time.Second, func() { _, _ = d.Store.Append(context.WithoutCancel(ctx), batch) })
	<-ctx.Done()
	return nil, &store.Error{Op: "append", Code: store.ErrUnavailable, Err: ctx.Err()}
}

// kept is an old store that outlives the mirror over it.
type kept struct{ *memory.Store }

func (kept) Close() error { return nil }

// TestCutOverWaitsForWhoHasEnded without an answer to its last copies, also when somebody
// begins anew meanwhile, or others end after it.
func TestCutOverWaitsForWhoHasEnded(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		other, err := mirror.New(kept{r.old}, deafened{r.new}, mirror.Config{CloseWait: time.Second})
		r.must(err)
		_, err = other.Append(t.Context(), store.NewBatch(letter("k", 1)))
		r.must(err)
		if err := other.Close(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("close: %v", err)
		}
		if c := other.Stats().Topics["mail"]; c.Sending != 1 || c.Missed != 1 {
			t.Errorf("it says %+v", c)
		}
		if done := r.work(); len(done) != 1 {
			t.Fatalf("done are %v", done)
		}
		err = r.traffic.Stop(t.Context(), "mail", false)
		r.must(err)
		time.Sleep(settleTime)
		r.copies() // it forgets who has ended
		moved, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		if !errors.Is(err, store.ErrConflict) || moved.Stage != mirror.Dual ||
			!strings.Contains(err.Error(), "ended before") {
			t.Errorf("%+v, %v", moved, err)
		}
		time.Sleep(mirror.Gone / 2)
		late, err := mirror.New(kept{r.old}, kept{r.new}, mirror.Config{})
		r.must(err)
		_, err = late.Append(t.Context(), store.NewBatch(letter("l", 1)))
		r.must(err)
		r.must(late.Close())
		r.work()
		time.Sleep(mirror.Gone / 2)
		if moved, err = r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second}); err != nil ||
			moved.Stage != mirror.Moved {
			t.Errorf("later: %+v, %v", moved, err)
		}
		if done := r.work(); len(done) != 0 {
			t.Errorf("done again are %v", done)
		}
	})
}

var errUnreachable = &store.Error{Op: "open postgres", Code: store.ErrUnavailable,
	Err: errors.New("connection refused")}
