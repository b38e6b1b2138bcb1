package spill

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestSettleIsRepeated: an answer of the fallback store that was lost costs nothing
// but time; a lease that ended costs a known duplicate.
func TestSettleIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.setDown(true)
		fallback := &forgetful{Store: memory.New(memory.Config{}), failures: 5}
		s := open(t, primary, fallback, Config{})
		for n := range 10 {
			send(t, s, msg("a", n))
		}
		primary.setDown(false)
		quiet(t, s, 10*time.Minute)
		primary.inOrder(t, "a", 10)
		if primary.repeats() != 0 {
			t.Errorf("%d duplicates", primary.repeats())
		}
	})
}

// forgetful does not do its first settles, or loses their answers.
type forgetful struct {
	store.Store
	failures int
}

func (f *forgetful) Unwrap() store.Store { return f.Store }

func (f *forgetful) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	lost := &store.Error{Op: "settle", Code: store.ErrUnavailable}
	f.failures--
	if f.failures > 0 && f.failures%2 == 0 {
		return nil, lost
	}
	refusals, err := f.Store.Settle(ctx, batch)
	if f.failures > 0 {
		return nil, lost
	}
	return refusals, err
}

// TestStuckSettleRepeatsNothing: rows that came back, but that the fallback store does
// not let go for a while, are not sent again: neither while it is locked nor while it is
// full.
func TestStuckSettleRepeatsNothing(t *testing.T) {
	for _, why := range []error{store.ErrUnavailable, store.ErrFull} {
		t.Run(why.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary, fallback := newLog(), &stuck{Store: memory.New(memory.Config{}), why: why}
				primary.setDown(true)
				s := open(t, primary, fallback, Config{})
				for n := range 10 {
					send(t, s, msg("a", n), msg(fmt.Sprint("key", n), 0))
				}
				fallback.on.Store(true)
				primary.setDown(false)
				time.Sleep(10 * time.Minute)
				fallback.on.Store(false)
				quiet(t, s, 10*time.Minute)
				synctest.Wait() // the compensator has counted
				primary.inOrder(t, "a", 10)
				if n := primary.repeats(); n != 0 {
					t.Errorf("%d duplicates, of messages that were answered", n)
				}
				if _, st := stats(t, s); st.Compensated != 20 || len(s.brought) != 0 {
					t.Errorf("%d are remembered; figures %+v", len(s.brought), st)
				}
			})
		})
	}
}

// stuck settles nothing while it is on.
type stuck struct {
	store.Store
	why error
	on  atomic.Bool
}

func (f *stuck) Unwrap() store.Store { return f.Store }

func (f *stuck) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if f.on.Load() {
		return nil, &store.Error{Op: "settle", Code: f.why}
	}
	return f.Store.Settle(ctx, batch)
}

// TestRefusedAmongOthersRepeatsNothing: a row that is refused ends its run in the
// fallback store; what was behind it, and came back in the same call, is not sent again.
func TestRefusedAmongOthersRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), memory.New(memory.Config{})
		primary.setDown(true)
		s := open(t, primary, fallback, Config{})
		for n := range 20 {
			send(t, s, msg("a", n))
		}
		primary.set(func(int, []pawl.Message) fate {
			return fate{each: func(m pawl.Message) error {
				if m.ID == "a-0" || m.ID == "a-5" || m.ID == "a-10" {
					return store.ErrTooLarge
				}
				return nil
			}}
		})
		quiet(t, s, time.Minute)
		if n, dead := primary.repeats(), len(deadRows(t, fallback)); n != 0 || dead != 3 || len(primary.all()) != 17 {
			t.Errorf("%d duplicates, %d came back, %d are dead", n, len(primary.all()), dead)
		}
	})
}
