package memory

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// Claim implements [store.Store].
func (s *core) Claim(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
	if err := backend.AdmitClaim(wants, terms); err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "claim")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	defer s.setAlarm(now)
	c := claim{core: s, now: now, terms: terms, fence: sqlstore.NewFence(), suspects: terms.Suspects}
	if terms.Alone && c.solitary(wants) {
		return c.out, nil
	}
	for _, w := range wants {
		c.topic(w)
	}
	return c.out, nil
}

// claim is one call of Claim.
type claim struct {
	*core
	now   time.Time
	terms store.Lease
	fence int64
	// suspects is what the suspects may weigh that the claim still takes.
	suspects int
	out      []pawl.Delivery
}

// solitary takes the best message, of the first topic that has any, that may be carried
// out alone.
func (c *claim) solitary(wants []store.Want) bool {
	for _, w := range wants {
		if l := c.waits(w.Topic, c.now, c.terms.For); l != nil && w.Limit > 0 {
			c.park(l) // what is behind it
			c.take(l, 1)
			return true
		}
	}
	return false
}

// waits returns the best lane of a topic whose message waits to be carried out alone, and
// may be now.
func (s *core) waits(topic string, now time.Time, lease time.Duration) *lane {
	t := s.topics[topic]
	if t == nil || t.paused(now) {
		return nil
	}
	var best *lane
	for _, l := range t.ready.Lanes {
		m := l.queue[0]
		if !store.Solitary(m.Rescues) || s.isParked(l) && m.Replays == 0 || best != nil && !byRank(l, best) {
			continue
		}
		if _, wait := t.totals.Deaths.PutOff(now, lease, m.LastRescue()); !wait {
			best = l
		}
	}
	return best
}

// Solitary implements [store.Suspected].
func (s *core) Solitary(ctx context.Context, lease time.Duration, topics ...string) (string, error) {
	now, err := s.enter(ctx, "solitary")
	if err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	for _, topic := range topics {
		if s.waits(topic, now, lease) != nil {
			return topic, nil
		}
	}
	return "", nil
}

// topic takes what w wants, but for suspects that do not fit.
func (c *claim) topic(w store.Want) {
	var passed []*lane
	count, bytes := 0, 0
	for count < w.Limit {
		l := c.best(w)
		if l == nil {
			break
		}
		rescues := l.queue[0].Rescues
		if store.Weight(rescues) > c.suspects {
			l.move(nil)
			passed = append(passed, l)
			continue
		}
		run := 0
		for run < len(l.queue) && run < cmp.Or(w.Run, store.DefaultRun) && count < w.Limit {
			if run > 0 && max(rescues, l.queue[run].Rescues) >= store.SuspectAfter {
				break
			}
			size := l.queue[run].Size()
			if w.MaxBytes > 0 && count > 0 && bytes+size > w.MaxBytes {
				break
			}
			bytes += size
			run++
			count++
		}
		if run == 0 {
			break // the next one is too large for what is left
		}
		c.suspects -= store.Weight(rescues)
		c.take(l, run)
	}
	for _, l := range passed {
		l.move(&l.topic.ready)
	}
}

// best returns the ready lane with the best rank, after what has to be parked
// is parked.
func (c *claim) best(w store.Want) *lane {
	t := c.topics[w.Topic]
	if t == nil || t.paused(c.now) {
		return nil
	}
	for len(t.ready.Lanes) > 0 {
		l := t.ready.Lanes[0]
		if !c.park(l) {
			return l
		}
	}
	return nil
}

// park sends what may not pass a dead letter to the dead letters, too, and
// reports whether it did.
func (c *claim) park(l *lane) bool {
	if !c.isParked(l) {
		return false
	}
	var pass []*message
	parked := false
	for _, m := range l.queue {
		if m.Replays > 0 {
			pass = append(pass, m)
			continue
		}
		c.makeDead(m, c.now, pawl.KindParked, backend.ParkedReason)
		parked = true
	}
	if parked {
		l.move(nil)
		l.queue = pass
		c.open(l)
	}
	return parked
}

// isParked reports whether a lane is parked behind a dead letter.
func (s *core) isParked(l *lane) bool {
	return l.topic.Park && l.keyed && l.topic.deadKeys[l.key] > 0
}

// take leases the first messages of a lane.
func (c *claim) take(l *lane, run int) {
	hard := c.now.Add(l.topic.Deadline)
	l.until = c.now.Add(c.terms.For)
	if l.until.After(hard) {
		l.until = hard
	}
	l.lease = &lease{
		Lease: c.terms, fence: c.fence, started: c.now, hard: hard,
		run: run, last: l.queue[run-1].seq,
	}
	l.lease.Alone = c.terms.Alone && store.Solitary(l.queue[0].Rescues)
	c.watch(l)
	for _, m := range l.queue[:run] {
		if m.Unique.For == pawl.UntilClaimed {
			c.freeUnique(&m.Message)
		}
		c.out = append(c.out, pawl.Delivery{
			Message: own(m.Message), Token: pawl.Token{Fence: c.fence, Lane: l.id, Seq: m.seq},
			Attempt: m.Attempts + 1, Rescues: m.Rescues, Replays: m.Replays, Throttles: m.Throttles,
			ThrottledFor: since(c.now, m.ThrottledSince), EnqueuedAt: m.EnqueuedAt,
			Waited: max(0, c.now.Sub(m.visible)), LeaseFor: l.until.Sub(c.now), Deadline: l.topic.Deadline,
			Tail: l.topic.Tail && l.keyed,
		})
	}
}

// since is how long ago a time was; 0 for none.
func since(now, at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return now.Sub(at)
}

// Extend implements [store.Store].
func (s *core) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	if err := backend.AdmitExtend(by, tokens); err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "extend")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var lost []pawl.Token
	for _, tok := range tokens {
		l, m := s.held(tok)
		if m == nil {
			lost = append(lost, tok)
			continue
		}
		until := now.Add(by)
		if until.After(l.lease.hard) {
			until = l.lease.hard
		}
		if until.After(l.until) {
			l.until = until
			s.watch(l)
		}
	}
	s.setAlarm(now)
	return lost, nil
}

// held returns the lane and the message that a token is good for; no message if
// it is stale.
func (s *core) held(tok pawl.Token) (*lane, *message) {
	l := s.lanes[tok.Lane]
	if l == nil || l.lease == nil || l.lease.fence != tok.Fence {
		return nil, nil
	}
	for _, m := range l.queue[:l.lease.run] {
		if m.seq == tok.Seq {
			return l, m
		}
	}
	return nil, nil
}
