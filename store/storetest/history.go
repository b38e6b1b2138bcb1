package storetest

import (
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
	handles := t.handles()
	for i, seed := range seeds(t, n) {
		// a history leaves nothing; where topics are costly, a new one each takes minutes
		t.Topic = fmt.Sprintf("history%d", i/10)
		h := &history{T: t, number: i, handles: handles, start: time.Now()}
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
	number  int
	handles []store.Store
	start   time.Time
	still   sync.RWMutex // held for writing while the clock moves

	mu   sync.Mutex
	ops  []porcupine.Operation
	keys map[string]string // by id: the lane
}

func (h *history) run(seed uint64) {
	const clients, calls = 4, 9
	h.keys = map[string]string{}
	h.together(clients, func(i int, _ store.Store) error {
		c := &client{history: h, id: i, s: h.handles[i%len(h.handles)], rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		for range calls {
			if err := c.call(); err != nil {
				return err
			}
		}
		return nil
	})
	c := &client{history: h, id: clients, s: h.Store, rand: rand.New(rand.NewPCG(seed, clients))}
	h.must(c.drain())
}

// record adds an operation to the history of a lane.
func (h *history) record(client int, call time.Duration, c laneCall, a laneAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: c, Output: a, Call: call.Nanoseconds(), Return: time.Since(h.start).Nanoseconds(),
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
	*history
	id   int
	s    store.Store
	rand *rand.Rand
	held []pawl.Delivery
	made int
}

func (c *client) call() error {
	switch n := c.rand.IntN(12); {
	case n == 0:
		return c.expireAll()
	case n < 5:
		return c.append()
	case n < 8 || len(c.held) == 0:
		return c.claim(1+c.rand.IntN(4), 1+c.rand.IntN(3), false)
	default:
		return c.settle()
	}
}

func (c *client) append() error {
	key := []string{"", "k", "l"}[c.rand.IntN(3)]
	var msgs []pawl.Message
	for range 1 + c.rand.IntN(2) {
		c.made++
		m := c.withID(fmt.Sprintf("%d-%d-%d", c.number, c.id, c.made), "x")
		if key != "" {
			m.Key = []byte(key)
		}
		msgs = append(msgs, m)
	}
	c.still.RLock()
	defer c.still.RUnlock()
	call := time.Since(c.start)
	receipts, err := c.s.Append(c.ctx(), store.NewBatch(msgs...))
	if err != nil {
		return err
	}
	appended := map[string][]string{}
	c.mu.Lock()
	for _, r := range receipts {
		lane := key
		if key == "" {
			lane = r.ID
		}
		c.keys[r.ID] = lane
		appended[lane] = append(appended[lane], r.ID)
	}
	c.mu.Unlock()
	for lane, ids := range appended {
		c.record(c.id, call, laneCall{lane: lane, op: "append", ids: ids}, nil)
	}
	return nil
}

func (c *client) claim(limit, run int, alone bool) error {
	c.still.RLock()
	defer c.still.RUnlock()
	call := time.Since(c.start)
	ds, err := c.s.Claim(c.ctx(), []store.Want{{Topic: c.Topic, Limit: limit, Run: run}},
		store.Lease{For: lease, Suspects: store.MaxSuspects, Alone: alone})
	if err != nil {
		return err
	}
	lanes := map[string]*laneCall{}
	for _, d := range ds {
		lane := laneOf(&d)
		if lanes[lane] == nil {
			lanes[lane] = &laneCall{lane: lane, op: "claim", fence: d.Token.Fence}
		}
		lanes[lane].ids = append(lanes[lane].ids, d.ID)
		if d.Rescues >= 4 && len(ds) > 1 {
			return fmt.Errorf("%s, after %d rescues, is one of %d deliveries", d.ID, d.Rescues, len(ds))
		}
	}
	for _, l := range lanes {
		c.record(c.id, call, *l, nil)
	}
	c.held = append(c.held, ds...)
	return nil
}

// settle settles some of what the client holds of one lane, or held once.
func (c *client) settle() error {
	first := c.held[c.rand.IntN(len(c.held))]
	var ds []pawl.Delivery
	for _, d := range c.held {
		if d.Token.Fence == first.Token.Fence && d.Token.Lane == first.Token.Lane {
			ds = append(ds, d)
		}
	}
	ends := []store.Verdict{store.Ack, store.Ack, store.Ack, store.Retry, store.Release, store.Dead}
	return c.settleAll(ds[:1+c.rand.IntN(len(ds))], ends...)
}

// settleAll settles deliveries of one lane, each in one of these ways.
func (c *client) settleAll(ds []pawl.Delivery, ends ...store.Verdict) error {
	in := laneCall{lane: laneOf(&ds[0]), op: "settle", fence: ds[0].Token.Fence}
	var items []store.Settlement
	for _, d := range ds {
		v := ends[c.rand.IntN(len(ends))]
		in.ids, in.ends = append(in.ids, d.ID), append(in.ends, v)
		items = append(items, verdict(d, v))
	}
	c.still.RLock()
	defer c.still.RUnlock()
	call := time.Since(c.start)
	refused, err := c.s.Settle(c.ctx(), store.NewBatch(items...))
	if err != nil {
		return err
	}
	out := make(laneAnswer, len(items))
	for _, r := range refused {
		out[r.Index] = true
	}
	c.record(c.id, call, in, out)
	if c.rand.IntN(4) > 0 { // or it is settled again
		c.held = slices.DeleteFunc(c.held, func(d pawl.Delivery) bool {
			return slices.Contains(in.ids, d.ID) && d.Token.Fence == in.fence
		})
	}
	return nil
}

// expireAll lets every lease end, while nobody calls.
func (c *client) expireAll() error {
	c.still.Lock()
	defer c.still.Unlock()
	call := time.Since(c.start)
	c.expire()
	c.record(c.id, call, laneCall{op: "expire"}, nil)
	return nil
}

// drain carries out what is left.
func (c *client) drain() error {
	if err := c.expireAll(); err != nil {
		return err
	}
	for {
		c.held = nil
		call := time.Since(c.start)
		if err := c.claim(100, 100, true); err != nil {
			return err
		}
		if len(c.held) == 0 {
			c.record(c.id, call, laneCall{op: "empty"}, nil)
			return nil
		}
		lanes := map[string][]pawl.Delivery{}
		for _, d := range c.held {
			lanes[laneOf(&d)] = append(lanes[laneOf(&d)], d)
		}
		for _, ds := range lanes {
			if err := c.settleAll(ds, store.Ack); err != nil {
				return err
			}
		}
	}
}
