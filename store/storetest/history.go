package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// histories records what several clients do at once to two lanes and to messages
// without a key, and checks that it could have happened one call after the
// other, lane by lane.
func histories(t *T) {
	n := 200
	if testing.Short() {
		n = 30
	}
	for i, seed := range seeds(t, n) {
		// a history leaves nothing; where topics are costly, a new one each takes minutes
		t.Topic = fmt.Sprintf("history%d", i/10)
		h := &history{T: t, number: i, start: time.Now()}
		h.run(seed)
		for lane, ops := range h.byLane() {
			if got := porcupine.CheckOperationsTimeout(laneModel(appendOrder(ops)), ops,
				20*time.Second); got != porcupine.Ok {
				t.Fatalf("%s=%d: lane %q: %s\n\t%s", seedVariable, seed, lane, got, describeOps(ops))
			}
		}
	}
}

// laneCall is what was asked of a lane.
type laneCall struct {
	lane  string
	op    string // append, claim, settle, expire; empty at the end
	ids   []string
	fence int64
	ends  []store.Verdict // settle: one an id
}

// laneAnswer is the answer of a settle: which ids were lost. Other calls have none.
type laneAnswer []bool

// laneState is a lane as the contract sees it. Values are never changed.
type laneState struct {
	there   []queued // in no order: see precedes
	fence   int64    // 0: not leased
	run     []string
	expired bool // a call may still settle, the next claim takes over
}

type queued struct {
	id      string
	rescues int
}

// precedes reports whether a must be before b in their lane: its append had
// returned before that of b began, or it came first in their batch. The contract
// leaves the order open when two appends overlap; a store may even show one of
// them, and then the other before it.
type precedes func(a, b string) bool

func laneModel(before precedes) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return laneState{} },
		Step: func(state, call, answer any) (bool, any) {
			return state.(laneState).step(before, call.(laneCall), answer.(laneAnswer))
		},
		Equal: func(a, b any) bool {
			x, y := a.(laneState), b.(laneState)
			return x.fence == y.fence && x.expired == y.expired && slices.Equal(x.run, y.run) &&
				slices.Equal(x.there, y.there)
		},
	}
}

func (s laneState) step(before precedes, c laneCall, a laneAnswer) (bool, laneState) {
	switch c.op {
	case "append":
		s.there = slices.Clone(s.there)
		for _, id := range c.ids {
			s.there = append(s.there, queued{id: id})
		}
		slices.SortFunc(s.there, func(a, b queued) int { return strings.Compare(a.id, b.id) })
		return true, s
	case "expire":
		s.expired = s.fence != 0
		return true, s
	case "claim":
		return s.claim(before, c)
	case "empty":
		return len(s.there) == 0, s
	default:
		return s.settle(c, a)
	}
}

func (s laneState) find(id string) int {
	return slices.IndexFunc(s.there, func(q queued) bool { return q.id == id })
}

func (s laneState) claim(before precedes, c laneCall) (bool, laneState) {
	if s.fence != 0 && !s.expired {
		return false, s
	}
	s.there = slices.Clone(s.there)
	if s.fence != 0 {
		s.there[s.find(s.run[0])].rescues++
	}
	for i, id := range c.ids {
		at := s.find(id)
		if at < 0 || s.there[at].rescues >= 2 && len(c.ids) > 1 {
			return false, s
		}
		for _, q := range s.there {
			if before(q.id, id) && !slices.Contains(c.ids[:i], q.id) {
				return false, s
			}
		}
	}
	s.fence, s.run, s.expired = c.fence, c.ids, false
	return true, s
}

func (s laneState) settle(c laneCall, a laneAnswer) (bool, laneState) {
	if s.expired && !slices.Contains(a, false) {
		return true, s // the end of the lease was noticed
	}
	s.there, s.run = slices.Clone(s.there), slices.Clone(s.run)
	for i, id := range c.ids {
		at := slices.Index(s.run, id)
		lost := s.fence != c.fence || at < 0
		if lost != a[i] {
			return false, s
		}
		if lost {
			continue
		}
		if v := c.ends[i]; v == store.Ack || v == store.Dead {
			s.there = slices.Delete(s.there, s.find(id), s.find(id)+1)
			s.run = slices.Delete(s.run, at, at+1)
		}
		if c.ends[i] != store.Ack || len(s.run) == 0 {
			s.fence, s.run, s.expired = 0, nil, false
		}
	}
	return true, s
}

// history is one recorded run.
type history struct {
	*T
	number int
	start  time.Time
	still  sync.RWMutex // held for writing while the clock moves

	mu   sync.Mutex
	ops  []porcupine.Operation
	keys map[string]string // by id: the lane
}

func (h *history) run(seed uint64) {
	const clients, calls = 4, 9
	h.keys = map[string]string{}
	at := func(i int, t *T) *client {
		return &client{T: t, history: h, id: i, rand: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	h.together(clients, func(i int, t *T) {
		c := at(i, t)
		for range calls {
			c.call()
		}
	})
	at(clients, h.T).drain()
}

// record makes a call, and adds what it did to a lane or to several to their histories.
func (h *history) record(client int, call func(did func(laneCall, laneAnswer))) {
	began := time.Since(h.start)
	call(func(c laneCall, a laneAnswer) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: c, Output: a, Call: began.Nanoseconds(),
			Return: time.Since(h.start).Nanoseconds()})
	})
}

// byLane parts the history. The end of leases, and that nothing is left, concern
// every lane.
func (h *history) byLane() map[string][]porcupine.Operation {
	lanes := map[string][]porcupine.Operation{}
	for _, lane := range h.keys {
		lanes[lane] = nil
	}
	for lane := range lanes {
		for _, op := range h.ops {
			if c := op.Input.(laneCall); c.lane == lane || c.lane == "" {
				lanes[lane] = append(lanes[lane], op)
			}
		}
	}
	return lanes
}

// appendOrder knows what the appends of a history say about order.
func appendOrder(ops []porcupine.Operation) precedes {
	type place struct {
		call, end int64
		at        int
	}
	places := map[string]place{}
	for _, op := range ops {
		if c := op.Input.(laneCall); c.op == "append" {
			for i, id := range c.ids {
				places[id] = place{op.Call, op.Return, i}
			}
		}
	}
	return func(a, b string) bool {
		x, y := places[a], places[b]
		return x.end < y.call || x.call == y.call && x.end == y.end && x.at < y.at
	}
}

func describeOps(ops []porcupine.Operation) string {
	var lines []string
	for _, op := range ops {
		c := op.Input.(laneCall)
		line := fmt.Sprintf("%8dus–%8dus client %d: %s %v", op.Call/1000, op.Return/1000, op.ClientId, c.op, c.ids)
		if c.fence != 0 {
			line += fmt.Sprintf(" fence %d %v", c.fence, c.ends)
		}
		if lost := op.Output.(laneAnswer); slices.Contains(lost, true) {
			line += fmt.Sprintf(" lost %v", lost)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n\t")
}

// laneOf names the lane of a delivery: its key or, without one, its id.
func laneOf(d *pawl.Delivery) string {
	if d.Key == nil {
		return d.ID
	}
	return string(d.Key)
}

// client makes random calls and records them.
type client struct {
	*T
	history *history
	id      int
	rand    *rand.Rand
	held    []pawl.Delivery
	made    int
}

func (c *client) call() {
	switch n := c.rand.IntN(12); {
	case n == 0:
		c.expireAll()
	case n < 5:
		c.append()
	case n < 8 || len(c.held) == 0:
		c.claim(1+c.rand.IntN(4), 1+c.rand.IntN(3), false)
	default:
		c.settle()
	}
}

// while makes a call while the clock stands still.
func (c *client) while(call func(did func(laneCall, laneAnswer))) {
	c.history.still.RLock()
	defer c.history.still.RUnlock()
	c.history.record(c.id, call)
}

func (c *client) append() {
	key := []string{"", "k", "l"}[c.rand.IntN(3)]
	var msgs []pawl.Message
	for range 1 + c.rand.IntN(2) {
		c.made++
		m := c.withID(fmt.Sprintf("%d-%d-%d", c.history.number, c.id, c.made), "x")
		if key != "" {
			m.Key = []byte(key)
		}
		msgs = append(msgs, m)
	}
	c.while(func(did func(laneCall, laneAnswer)) {
		appended := map[string][]string{}
		receipts := c.T.append(msgs...)
		c.history.mu.Lock()
		for _, r := range receipts {
			lane := cmp.Or(key, r.ID)
			c.history.keys[r.ID] = lane
			appended[lane] = append(appended[lane], r.ID)
		}
		c.history.mu.Unlock()
		for lane, ids := range appended {
			did(laneCall{lane: lane, op: "append", ids: ids}, nil)
		}
	})
}

func (c *client) claim(limit, run int, alone bool) {
	terms := allSuspects()
	terms.Alone = alone
	c.while(func(did func(laneCall, laneAnswer)) {
		ds := c.claimWith(terms, store.Want{Topic: c.Topic, Limit: limit, Run: run})
		for lane, ds := range lanesOf(ds) {
			ids := each(ds, func(d pawl.Delivery) string { return d.ID })
			did(laneCall{lane: lane, op: "claim", fence: ds[0].Token.Fence, ids: ids}, nil)
		}
		for _, d := range ds {
			c.check(d.Rescues < 4 || len(ds) == 1, "%s, after %d rescues, is one of %d deliveries", d.ID, d.Rescues,
				len(ds))
		}
		c.held = append(c.held, ds...)
	})
}

// lanesOf are the deliveries of each lane.
func lanesOf(ds []pawl.Delivery) map[string][]pawl.Delivery {
	lanes := map[string][]pawl.Delivery{}
	for _, d := range ds {
		lanes[laneOf(&d)] = append(lanes[laneOf(&d)], d)
	}
	return lanes
}

// settle settles some of what the client holds of one lane, or held once.
func (c *client) settle() {
	first := c.held[c.rand.IntN(len(c.held))]
	var ds []pawl.Delivery
	for _, d := range c.held {
		if d.Token.Fence == first.Token.Fence && d.Token.Lane == first.Token.Lane {
			ds = append(ds, d)
		}
	}
	c.settleAll(ds[:1+c.rand.IntN(len(ds))], store.Ack, store.Ack, store.Ack, store.Retry, store.Release, store.Dead)
}

// settleAll settles deliveries of one lane, each in one of these ways.
func (c *client) settleAll(ds []pawl.Delivery, ends ...store.Verdict) {
	in := laneCall{lane: laneOf(&ds[0]), op: "settle", fence: ds[0].Token.Fence}
	var items []store.Settlement
	for _, d := range ds {
		v := ends[c.rand.IntN(len(ends))]
		in.ids, in.ends = append(in.ids, d.ID), append(in.ends, v)
		items = append(items, verdict(d, v))
	}
	c.while(func(did func(laneCall, laneAnswer)) {
		out := make(laneAnswer, len(items))
		for _, r := range c.T.settle(items...) {
			out[r.Index] = true
		}
		did(in, out)
	})
	if c.rand.IntN(4) > 0 { // or it is settled again
		c.held = slices.DeleteFunc(c.held, func(d pawl.Delivery) bool {
			return slices.Contains(in.ids, d.ID) && d.Token.Fence == in.fence
		})
	}
}

// expireAll lets every lease end, while nobody calls.
func (c *client) expireAll() {
	c.history.still.Lock()
	defer c.history.still.Unlock()
	c.history.record(c.id, func(did func(laneCall, laneAnswer)) {
		c.expire()
		did(laneCall{op: "expire"}, nil)
	})
}

// drain carries out what is left.
func (c *client) drain() {
	c.expireAll()
	for c.claim(100, 100, true); len(c.held) > 0; c.claim(100, 100, true) {
		lanes := lanesOf(c.held)
		for _, ds := range lanes {
			c.settleAll(ds, store.Ack)
		}
		c.held = nil
	}
	c.while(func(did func(laneCall, laneAnswer)) { did(laneCall{op: "empty"}, nil) })
}
