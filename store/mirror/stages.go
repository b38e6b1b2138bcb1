package mirror

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// stages are the plans as this process knows them.
type stages struct {
	plans   *Plans // nil: the primary has no state
	all     bool
	reading chan struct{} // holds one token: who reads takes it

	mu    sync.RWMutex
	known map[string]*Plan
	clock time.Time // the primary's, at asked
	asked time.Time // when the reading of known began
}

func newStages(primary store.Store, all bool) *stages {
	st := &stages{all: all, reading: make(chan struct{}, 1)}
	st.reading <- struct{}{}
	st.plans, _ = OpenPlans(primary) // without a state there are no stages
	return st
}

// read asks the primary, unless somebody has done so since then.
func (st *stages) read(ctx context.Context, since time.Time) error {
	if st.plans == nil {
		return nil
	}
	select {
	case <-st.reading:
	case <-ctx.Done():
		return &store.Error{Op: "read the stages of traffic", Err: ctx.Err()}
	}
	defer func() { st.reading <- struct{}{} }()
	st.mu.RLock()
	done := st.asked.After(since)
	st.mu.RUnlock()
	if done {
		return nil
	}
	began := time.Now()
	known, err := st.plans.List(ctx)
	if err != nil {
		return err
	}
	var clock time.Time
	if slices.ContainsFunc(slices.Collect(maps.Values(known)), func(p *Plan) bool { return p.Stage == Closing }) {
		// The clock first: what is still closing after its end was given up.
		if clock, err = st.plans.Clock(ctx); err == nil {
			known, err = st.plans.List(ctx)
		}
		if err != nil {
			return err
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.known, st.clock, st.asked = known, clock, began
	return nil
}

// look returns what is to become of a topic, as of at most [Fresh] ago.
func (st *stages) look(ctx context.Context, topic string) (route, error) {
	if st.plans == nil {
		return st.route(topic), nil
	}
	for {
		st.mu.RLock()
		asked := st.asked
		st.mu.RUnlock()
		if time.Since(asked) < Fresh {
			return st.route(topic), nil
		}
		if err := st.read(ctx, asked); err != nil {
			return route{}, err
		}
	}
}

// open is as look, and waits while the topic is closed.
func (st *stages) open(ctx context.Context, topic string) (route, error) {
	r, err := st.look(ctx, topic)
	for err == nil && r.stage == Closing {
		if err = store.Sleep(ctx, lookAgain); err == nil {
			err = st.read(ctx, time.Now())
		}
		if err != nil && ctx.Err() != nil {
			return route{}, closed(ctx.Err())
		}
		r = st.route(topic)
	}
	return r, err
}

func closed(why error) error {
	return &store.Error{Op: "append", Code: store.ErrUnavailable, Err: why,
		Hint: "the topic is being moved to another store: try again in a few seconds"}
}

// route is what becomes of a topic.
type route struct{ stage, from Stage }

// away reports whether appends go to the mirrored store.
func (r route) away() bool { return r.stage == Draining || r.stage == Moved }

// there reports whether claims go to the mirrored store.
func (r route) there() bool {
	return r.stage == Moved || r.stage == Returning || r.stage == Closing && r.from == Moved
}

// copied reports whether copies are of use.
func (r route) copied() bool { return r.stage == Dual || r.stage == Closing && r.from == Dual }

func (st *stages) route(topic string) route {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if p := st.known[topic]; p != nil {
		return route{p.acting(st.clock), p.From}
	}
	if st.all {
		return route{stage: Dual}
	}
	return route{}
}

// planned reports whether a topic has a plan.
func (st *stages) planned(topic string) bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.known[topic] != nil
}
