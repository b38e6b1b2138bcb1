package kafka

import (
	"github.com/pawl-dev/pawl"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// rig is an engine without a client: the test is the brokers, the group and the
// handlers.
type rig struct {
	t         testing.TB
	engine    *engine
	ownership *ownership
	ahead     atomic.Int64 // of the clock, which the alarm of the engine looks at, too
	began     time.Time
}

const rigTopic = "orders"

func newRig(t testing.TB, limits Consuming) *rig {
	limits.defaults()
	r := &rig{t: t, began: time.Unix(1_700_000_000, 0)}
	r.engine = newEngine(func() time.Time { return r.began.Add(time.Duration(r.ahead.Load())) }, limits)
	r.ownership = &ownership{r.engine}
	t.Cleanup(r.engine.shutDown)
	return r
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) { r.ahead.Add(int64(d)) }

// assign begins an assignment of partition 0 at an offset, with nothing known
// beyond it.
func (r *rig) assign(committed int64) *assignment {
	return r.ownership.assign(rigTopic, 0, 1, committed, gate.Checkpoint{})
}

// resume begins an assignment with what an earlier one left.
func (r *rig) resume(cp gate.Checkpoint) *assignment {
	r.t.Helper()
	decoded, err := gate.Decode(cp.Base, 1, cp.Text())
	if err != nil {
		r.t.Fatal(err)
	}
	return r.ownership.assign(rigTopic, 0, 1, cp.Base, decoded)
}

// records are messages of one key each, from an offset on; "" is no key.
func records(from int64, keys ...string) []*kgo.Record {
	var rs []*kgo.Record
	for i, key := range keys {
		rs = append(rs, record(from+int64(i), key))
	}
	return rs
}

func record(offset int64, key string) *kgo.Record {
	r := &kgo.Record{Topic: rigTopic, Offset: offset, Value: []byte("body")}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

// take takes records in; all of them must find room.
func (r *rig) take(a *assignment, rs ...*kgo.Record) {
	r.t.Helper()
	if n := r.engine.take(a, rs); n != len(rs) {
		r.t.Fatalf("%d of %d records were taken in", n, len(rs))
	}
}

// given is a message that was handed out.
type given struct {
	flight *flight
	token  pawl.Token
}

func handed(c *claim) (all []given) {
	for i, f := range c.flights {
		all = append(all, given{f, c.ds[i].Token})
	}
	return all
}

// claim leases up to limit messages for a minute, one of a lane at a time.
func (r *rig) claim(limit int) []given { return r.claimWith(limit, store.Lease{For: time.Minute}) }

func (r *rig) claimWith(limit int, terms store.Lease) []given {
	r.t.Helper()
	c, err := r.engine.claim([]store.Want{{Topic: rigTopic, Limit: limit, Run: 1}}, &terms)
	if err != nil {
		r.t.Fatal(err)
	}
	return handed(c)
}

// settle ends a delivery; false if its token is stale.
func (r *rig) settle(g given, st store.Settlement) bool {
	r.t.Helper()
	st.Token = g.token
	lost, _, err := r.engine.settle([]store.Settlement{st}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return len(lost) == 0
}

func (r *rig) ack(g given) bool { return r.settle(g, store.Settlement{Verdict: store.Ack}) }

// checkpoint is what the committer would commit now.
func (r *rig) checkpoint(a *assignment) gate.Checkpoint {
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	return r.ownership.checkpoint(a)
}

// offsets are those of what was handed out.
func offsets(gs []given) []int64 {
	all := []int64{}
	for _, g := range gs {
		all = append(all, g.flight.rec.Offset)
	}
	return all
}

// assign begins an assignment. Committed is the offset committed, -1 if there is none; cp what was
// committed with it.
func (e *ownership) assign(name string, partition int32, source uint32, committed int64,
	cp gate.Checkpoint) *assignment {
	return e.begin(name, partition, beginning{holder: holder{source: source}, at: committed, epoch: -1, cp: cp,
		found: committedState{base: committed}})
}
