package kafka

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// claim is one call of Claim.
type claim struct {
	*engine
	now   int64
	terms *store.Lease
	fence int64
	// flights are the messages that it hands out, and ds the deliveries made from them.
	flights []*flight
	ds      []pawl.Delivery
	// suspects is the weight of suspects that it may still take.
	suspects int
	// careful are the partitions whose checkpoint must be committed before
	// anything is carried out.
	careful map[*assignment]bool
	// fresh are those of which nothing was handed out before, according to their commits.
	fresh map[*assignment]bool
	// deaths are the messages it found that become dead letters.
	deaths []*death
}

// claim leases the wanted messages that are there.
func (e *engine) claim(wants []store.Want, terms *store.Lease) (*claim, error) {
	now, err := e.enter("claim")
	if err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	c := &claim{engine: e, now: now, terms: terms, fence: rand.Int64() | 1, suspects: terms.Suspects}
	if !terms.Alone || !c.solitary(wants) {
		for _, w := range wants {
			c.from(w)
		}
	}
	c.ds = make([]pawl.Delivery, len(c.flights))
	for i, f := range c.flights {
		c.fillIn(&c.ds[i], f)
	}
	e.setAlarm()
	return c, nil
}

// solitary takes the first message, of the first topic that has any, that may be carried
// out alone.
func (c *claim) solitary(wants []store.Want) bool {
	for _, w := range wants {
		if l := c.waits(w.Topic, c.now, c.terms.For); l != nil && w.Limit > 0 {
			l.of.topic.ready.remove(l)
			l.of.tries[l.head.offset] = uint8(l.head.trouble.lonely + 1)
			include(&c.careful, l.of)
			c.take(l, 1)
			return true
		}
	}
	return false
}

// from takes what w wants, but for suspects that do not fit.
func (c *claim) from(w store.Want) {
	var passed []*lane
	t, count, bytes := c.topics[w.Topic], 0, 0
	for count < w.Limit {
		l := c.best(t)
		if l == nil {
			break
		}
		weight := l.head.weight()
		if weight > c.suspects {
			l.of.topic.ready.pop(l)
			passed = append(passed, l)
			continue
		}
		n := 0
		for f, limit := l.head, l.runLimit(w); f != nil && n < limit && count < w.Limit; f = f.next {
			if n > 0 && max(weight, f.weight()) > 0 {
				break // a suspect is a run by itself
			}
			if w.MaxBytes > 0 && count > 0 && bytes+f.size > w.MaxBytes {
				break
			}
			bytes += f.size
			n++
			count++
		}
		if n == 0 {
			break // the next one is too large for what is left
		}
		l.of.topic.ready.pop(l)
		c.suspects -= weight
		c.take(l, n)
	}
	for _, l := range passed {
		l.of.topic.ready.push(l)
	}
}

func (l *lane) runLimit(w store.Want) int {
	if l.of.mostLanes() < maxCount {
		return 1
	}
	return cmp.Or(w.Run, store.DefaultRun)
}

func (c *claim) best(t *topic) *lane {
	if t == nil || t.paused(c.now) {
		return nil
	}
	for {
		l := t.ready.best()
		switch {
		case l == nil:
			return nil
		case l.of.state != live: // it is being given up, or gone
			t.ready.pop(l)
			l.state = empty
		case l.of.full():
			t.ready.pop(l)
			l.state = aside
			l.of.setAside = append(l.of.setAside, l)
		case l.head.trouble != nil && l.head.trouble.lonely >= store.LonelyRescues:
			t.ready.pop(l)
			c.deaths = append(c.deaths, c.die(l.head, pawl.KindRescue, backend.LonelyReason))
		case c.parks(l):
		default:
			return l
		}
	}
}

// parks sends the messages of a lane that waits behind a dead letter to the dead
// letters, too; false if there are none.
func (c *claim) parks(l *lane) bool {
	t := l.of.topic
	if !t.Park || !l.keyed || t.deadByKey[l.key] == 0 {
		return false
	}
	before := len(c.deaths)
	for f := l.head; f != nil; f = f.next {
		if f.trouble == nil || f.trouble.replays == 0 {
			c.deaths = append(c.deaths, c.die(f, pawl.KindParked, backend.ParkedReason))
		}
	}
	if len(c.deaths) == before {
		return false
	}
	t.ready.pop(l)
	return true
}

func (c *claim) take(l *lane, n int) {
	c.lease(l, n, c.terms, c.fence, c.now)
	switch a := l.of; {
	case a.onRecord(c.now):
		include(&c.careful, a)
	case !a.marked:
		include(&c.fresh, a)
	}
	f := l.head
	for range n {
		c.flights = append(c.flights, f)
		f = f.next
	}
}

// fillIn sets the fields of a delivery that the engine knows.
func (c *claim) fillIn(d *pawl.Delivery, f *flight) {
	l := f.lane
	d.Token, d.Attempt = tokenOf(f), 1
	d.LeaseFor, d.Deadline = time.Duration(l.until-c.now), time.Duration(l.lease.hard-c.now)
	if t := f.trouble; t != nil {
		d.Attempt, d.Rescues, d.Replays = t.attempts+1, t.rescues, t.replays
		if d.Throttles = t.throttles; d.Throttles > 0 {
			d.ThrottledFor = time.Unix(0, c.now).Sub(t.throttledSince)
		}
	}
}

// include adds to a set that is not made until something is in it.
func include(as *map[*assignment]bool, a *assignment) {
	if *as == nil {
		*as = map[*assignment]bool{}
	}
	(*as)[a] = true
}

func (c *claim) undo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.ds {
		l, f := c.held(c.ds[i].Token)
		if f == nil {
			continue
		}
		c.clearTry(f)
		c.unlease(l)
		l.giveBack()
		c.open(l)
	}
}

// deliveries are for the caller: with copies of the messages, which it may change.
func (c *claim) deliveries() []pawl.Delivery {
	var copies copier
	now := time.Unix(0, c.now)
	for _, f := range c.flights {
		copies.left += len(f.rec.Key) + len(f.rec.Value)
	}
	for i, f := range c.flights {
		copies.fill(&c.ds[i], f)
		c.ds[i].Waited = max(0, now.Sub(c.ds[i].EnqueuedAt))
	}
	return c.ds
}

// Claim implements [store.Store]. It hands out messages that were fetched already, and joins
// the group for a topic when it is wanted for the first time.
func (s *Store) Claim(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
	if err := backend.AdmitClaim(wants, terms); err != nil {
		return nil, err
	}
	if err := s.usable(ctx, "claim"); err != nil {
		return nil, err
	}
	if err := s.subscribe(ctx, wants); err != nil {
		return nil, err
	}
	c, err := s.engine.claim(wants, &terms)
	for err == nil && len(c.deaths) > 0 && len(c.ds) == 0 {
		if !s.awaitDeaths(ctx, c.deaths) {
			break
		}
		c, err = s.engine.claim(wants, &terms)
	}
	if err != nil {
		return nil, err
	}
	if len(c.fresh) > 0 {
		s.mark(ctx, c.fresh, terms.For)
	}
	if len(c.careful) > 0 {
		if err := s.commitNow(ctx, c.careful, min(commitTimeout, terms.For/2)); err != nil {
			c.undo()
			return nil, unavailable("claim", err)
		}
	}
	return c.deliveries(), nil
}

// waits returns the first lane of a topic whose message waits to be carried out alone, and
// may be now.
func (e *engine) waits(name string, now int64, lease time.Duration) (first *lane) {
	t := e.topics[name]
	if t == nil || t.paused(now) {
		return nil
	}
	for _, a := range t.partitions {
		if a.state != live || a.putOff(now, lease) {
			continue
		}
		for offset := range a.tries {
			f := a.find(offset)
			if f == nil || !f.solitary() || f.lane.head != f || f.lane.state != ready || e.mustDie(f) {
				continue
			}
			_, wait := t.died.PutOff(time.Unix(0, now), lease, time.Unix(0, f.trouble.rescued))
			if !wait && (first == nil || f.seq < first.head.seq) {
				first = f.lane
			}
		}
	}
	return first
}

// mustDie reports whether a message becomes a dead letter instead.
func (e *engine) mustDie(f *flight) bool {
	l := f.lane
	parked := l.of.topic.Park && l.keyed && l.of.topic.deadByKey[l.key] > 0 && f.trouble.replays == 0
	return parked || f.trouble.lonely >= store.LonelyRescues
}

// Solitary implements [store.Suspected], for the messages that this process has fetched.
func (s *Store) Solitary(ctx context.Context, lease time.Duration, topics ...string) (string, error) {
	if err := s.usable(ctx, "solitary"); err != nil {
		return "", err
	}
	now, err := s.engine.enter("solitary")
	if err != nil {
		return "", err
	}
	defer s.engine.mu.Unlock()
	for _, topic := range topics {
		if s.engine.waits(topic, now, lease) != nil {
			return topic, nil
		}
	}
	return "", nil
}
