package mirror_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// unreachable is a store whose claims fail, after some time.
type unreachable struct {
	store.Store
	down  atomic.Bool
	takes time.Duration
	asked atomic.Int64
}

func (u *unreachable) Unwrap() store.Store { return u.Store }

func (u *unreachable) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	u.asked.Add(1)
	if !u.down.Load() {
		return u.Store.Claim(ctx, wants, lease)
	}
	time.Sleep(u.takes)
	return nil, &store.Error{Op: "claim", Code: store.ErrUnavailable, Err: errDown}
}

// TestOneStoreIsAway: what the other one has is carried out all the same, whichever it
// is and whatever the stage, and the error is told when there is nothing.
func TestOneStoreIsAway(t *testing.T) {
	for _, stage := range []mirror.Stage{mirror.Moved, mirror.Returning} {
		synctest.Test(t, func(t *testing.T) {
			old, nu := memory.New(memory.Config{}), memory.New(memory.Config{})
			target := &unreachable{Store: nu, takes: 2 * time.Second}
			m, err := mirror.New(old, target, mirror.Config{})
			if err != nil {
				t.Fatal(err)
			}
			p := &pair{old: old, new: nu, Store: m}
			defer func() { _ = m.Close() }()
			if p.plans, err = mirror.OpenPlans(old); err != nil {
				t.Fatal(err)
			}
			p.stage(t, "mail", to(stage))
			target.down.Store(true)
			wants := []store.Want{{Topic: "mail", Limit: 1}, {Topic: "other", Limit: 1}}
			if ds, err := m.Claim(t.Context(), wants, store.Lease{For: time.Minute}); len(ds) != 0 ||
				!errors.Is(err, errDown) {
				t.Errorf("%s: with nothing to do: %v, %v", stage, ids(ds), err)
			}
			began := time.Now()
			for n := range 40 {
				appendAll(t, m, pawl.Message{Topic: "other"})
				if ds, err := m.Claim(t.Context(), wants, store.Lease{For: time.Minute}); err != nil || len(ds) != 1 {
					t.Fatalf("%s: claim %d gives %v, %v", stage, n, ids(ds), err)
				}
				time.Sleep(500 * time.Millisecond)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s: it took %v, the store that is away was asked %d times", stage, took, target.asked.Load())
			}
			appendAll(t, nu, mail("k", 1))
			target.down.Store(false)
			time.Sleep(10 * time.Second)
			if ds, err := m.Claim(t.Context(), wants, store.Lease{For: time.Minute}); err != nil || len(ds) != 1 ||
				ds[0].ID != "k-0001" {
				t.Errorf("%s: when it is back: %v, %v", stage, ids(ds), err)
			}
		})
	}
}

// silent is a store whose claims are not answered.
type silent struct {
	store.Store
	down atomic.Bool
}

func (s *silent) Unwrap() store.Store { return s.Store }

func (s *silent) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	if !s.down.Load() {
		return s.Store.Claim(ctx, wants, lease)
	}
	<-ctx.Done()
	return nil, &store.Error{Op: "claim", Code: store.ErrUnavailable, Err: ctx.Err()}
}

// TestOneStoreDoesNotAnswer: a caller with little time gets what the other one has, and
// seldom waits for it.
func TestOneStoreDoesNotAnswer(t *testing.T) {
	for _, stage := range []mirror.Stage{mirror.Moved, mirror.Closing} {
		synctest.Test(t, func(t *testing.T) {
			old, nu := memory.New(memory.Config{}), memory.New(memory.Config{})
			target := &silent{Store: nu}
			m, err := mirror.New(old, target, mirror.Config{})
			if err != nil {
				t.Fatal(err)
			}
			p := &pair{old: old, new: nu, Store: m}
			defer func() { _ = m.Close() }()
			if p.plans, err = mirror.OpenPlans(old); err != nil {
				t.Fatal(err)
			}
			p.stage(t, "mail", func(plan *mirror.Plan) {
				plan.Stage, plan.From, plan.Until = stage, mirror.Moved, time.Now().Add(time.Hour)
			})
			target.down.Store(true)
			wants := []store.Want{{Topic: "mail", Limit: 1}, {Topic: "other", Limit: 1}}
			began := time.Now()
			for n := range 60 {
				appendAll(t, m, pawl.Message{Topic: "other"})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				ds, err := m.Claim(ctx, wants, store.Lease{For: time.Minute})
				cancel()
				if err != nil || len(ds) != 1 {
					t.Fatalf("%s: claim %d gives %v, %v", stage, n, ids(ds), err)
				}
				time.Sleep(500 * time.Millisecond)
			}
			if took := time.Since(began); took > 45*time.Second {
				t.Errorf("%s: it took %v", stage, took)
			}
			appendAll(t, nu, mail("k", 1))
			target.down.Store(false)
			time.Sleep(15 * time.Second)
			if ds, err := m.Claim(t.Context(), wants, store.Lease{For: time.Minute}); err != nil || len(ds) != 1 ||
				ds[0].ID != "k-0001" {
				t.Errorf("%s: when it is back: %v, %v", stage, ids(ds), err)
			}
		})
	}
}

// TestCallerHasEnough: what ends because the caller says so tells nothing of the store.
func TestCallerHasEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, nu := memory.New(memory.Config{}), memory.New(memory.Config{})
		target := &silent{Store: nu}
		m, err := mirror.New(old, target, mirror.Config{})
		if err != nil {
			t.Fatal(err)
		}
		p := &pair{old: old, new: nu, Store: m}
		defer func() { _ = m.Close() }()
		if p.plans, err = mirror.OpenPlans(old); err != nil {
			t.Fatal(err)
		}
		p.stage(t, "mail", to(mirror.Moved))
		appendAll(t, nu, mail("k", 1))
		target.down.Store(true)
		wants := []store.Want{{Topic: "mail", Limit: 1}, {Topic: "other", Limit: 1}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if ds, _ := m.Claim(ctx, wants, store.Lease{For: time.Minute}); len(ds) != 0 {
			t.Errorf("claimed %v", ids(ds))
		}
		target.down.Store(false)
		if ds, err := m.Claim(t.Context(), wants, store.Lease{For: time.Minute}); err != nil || len(ds) != 1 {
			t.Errorf("a moment later: %v, %v", ids(ds), err)
		}
	})
}
