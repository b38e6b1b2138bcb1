package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// optional returns an optional interface of the store, which it declared.
func optional[I any](t *T) I {
	i, ok := store.As[I](t.Store)
	if !ok {
		t.Fatalf("%T has no %T, though it declares the capability", t.Store, (*I)(nil))
	}
	return i
}

func (t *T) topics() store.Topics       { return optional[store.Topics](t) }
func (t *T) inspector() store.Inspector { return optional[store.Inspector](t) }
func (t *T) dead() store.DeadLetters    { return optional[store.DeadLetters](t) }

// declare declares the test's topic.
func (t *T) declare(d store.Declaration) store.Topic {
	d.Name = t.Topic
	got, err := t.topics().Declare(t.ctx(), d)
	t.must(err)
	return got
}

// alter alters the settings of a topic, and returns them.
func (t *T) alter(to store.Topic) store.Topic {
	got, err := t.topics().Alter(t.ctx(), to)
	t.must(err)
	return got
}

// unordered makes every message of the topic a lane of its own.
func (t *T) unordered() {
	t.declare(store.Declaration{Order: store.OrderNone})
}

// get returns what is known of a message, which must be there.
func (t *T) get(id string) store.Record {
	r, err := t.inspector().Get(t.ctx(), id)
	t.must(err)
	t.check(r.ID == id, "get %q returned message %q", id, r.ID)
	return r
}

// inState fails unless the message is in that state.
func (t *T) inState(id string, want store.State) store.Record {
	r := t.get(id)
	t.check(r.State == want, "message %q is %s; want %s (%s)", r.Body, r.State, want, r.Reason)
	return r
}

// gone fails if a message is known.
func (t *T) gone(id string) {
	r, err := t.inspector().Get(t.ctx(), id)
	t.check(errors.Is(err, store.ErrNotFound), "get of a message that is gone: %+v, %v; want %v", r, err,
		store.ErrNotFound)
}

// stats returns the figures of the topic.
func (t *T) stats() store.TopicStats {
	return t.statsOf(t.Topic)
}

func (t *T) statsOf(topic string) store.TopicStats {
	all, err := t.topics().Stats(t.ctx(), topic)
	t.must(err)
	t.check(len(all) == 1 && all[0].Name == topic, "stats of topic %q: %+v", topic, all)
	return all[0]
}

// list collects what List yields.
func (t *T) list(f store.Filter) []store.Record {
	return t.collect(t.inspector().List(t.ctx(), f))
}

// deadLetters collects dead letters.
func (t *T) deadLetters(f store.DeadFilter) []store.Record {
	return t.collect(t.dead().Dead(t.ctx(), f))
}

func (t *T) collect(seq func(func(store.Record, error) bool)) []store.Record {
	var all []store.Record
	for r, err := range seq {
		t.must(err)
		all = append(all, r)
	}
	return all
}

// lists fails unless List yields messages with these bodies, in order, all of the state that is asked for.
func (t *T) lists(f store.Filter, bodies ...string) {
	got := t.list(f)
	t.Logf("%+v", f)
	t.wantRecords(got, bodies...)
	for _, r := range got {
		t.check(f.State == "" || r.State == f.State, "%q is %s", r.Body, r.State)
	}
}

// listsDead fails unless Dead yields letters with these bodies, in order.
func (t *T) listsDead(f store.DeadFilter, bodies ...string) {
	t.Logf("%+v", f)
	t.wantRecords(t.deadLetters(f), bodies...)
}

// wantRecords fails unless the records have these bodies, in order.
func (t *T) wantRecords(got []store.Record, bodies ...string) {
	have := recordBodies(got)
	t.check(slices.Equal(have, bodies), "listed %q; want %q", have, bodies)
}

func recordBodies(rs []store.Record) []string {
	return each(rs, func(r store.Record) string { return string(r.Body) })
}

// replay replays dead letters, which must succeed; topic "" is where they died.
func (t *T) replay(topic string, ids ...string) {
	t.noneRefused(t.dead().Replay(t.ctx(), topic, ids...))
}

// cancel cancels messages, which must succeed.
func (t *T) cancel(ids ...string) {
	t.noneRefused(t.inspector().Cancel(t.ctx(), ids...))
}

func (t *T) noneRefused(refused map[string]error, err error) {
	t.refusing(refused, err).want(nil)
}

// refusals are what a call refused, by id.
type refusals struct {
	*T
	of map[string]error
}

func (t *T) refusing(refused map[string]error, err error) refusals {
	t.must(err)
	return refusals{t, refused}
}

// want fails unless exactly these ids were refused, for that reason.
func (r refusals) want(reason error, ids ...string) {
	got := slices.Sorted(maps.Keys(r.of))
	r.check(slices.Equal(got, slices.Sorted(slices.Values(ids))), "refused %q; want %q", got, ids)
	for id, why := range r.of {
		r.check(errors.Is(why, reason), "%q was refused: %v; want %v", id, why, reason)
	}
}

// invalid fails unless exactly this id was refused, for a field that no store takes.
func (r refusals) invalid(id string) {
	why := r.of[id]
	r.check(len(r.of) == 1 && why != nil, "refused %v; want %q", r.of, id)
	r.T.invalid(r.of[id])
}

// near fails unless two durations agree up to what a test takes.
func (t *T) near(what string, got, want time.Duration) {
	d := got - want
	t.check(d.Abs() <= 20*time.Second, "%s is %v; want %v", what, got, want)
}

// eventually waits, in real time, until something holds.
func (t *T) eventually(what string, holds func() bool) {
	deadline := time.Now().Add(t.timeout)
	for !holds() {
		t.check(!time.Now().After(deadline), "not within %v: %s", t.timeout, what)
		time.Sleep(2 * time.Millisecond)
	}
}

// within2Seconds waits like eventually, but for two seconds and what a busy machine adds.
func (t *T) within2Seconds(what string, holds func() bool) {
	start := time.Now()
	t.eventually(what, holds)
	took := time.Since(start)
	t.check(took <= 4*time.Second, "not within two seconds, but after %v: %s", took, what)
}

// invalid fails unless err is about a field that no store takes.
func (t *T) invalid(err error) {
	_, ok := errors.AsType[*pawl.InvalidError](err)
	t.check(ok, "error %v; want an *InvalidError", err)
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
