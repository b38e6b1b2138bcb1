package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// claim checks what a claim gave against what the contract allows, and follows
// it. It returns what is wrong.
func (m *model) claim(ds []pawl.Delivery, want store.Want, lease store.Lease) error {
	if len(ds) > want.Limit {
		return fmt.Errorf("%d deliveries; the limit is %d", len(ds), want.Limit)
	}
	if m.paused && len(ds) > 0 {
		return fmt.Errorf("the topic is paused")
	}
	groups, err := m.groups(ds)
	if err != nil {
		return err
	}
	if err := m.inSolitude(groups, want, lease); err != nil {
		return err
	}
	if err := m.byRank(groups, want, lease); err != nil {
		return err
	}
	for _, g := range groups {
		if err := m.take(g, want, lease); err != nil {
			return err
		}
	}
	return nil
}

// group is what a claim gave of one lane, and where the lane stood: at its first
// message, or sooner for a better one behind.
type group struct {
	lane           *mLane
	ds             []pawl.Delivery
	stands, sooner *mMessage
}

// groups finds the lanes of deliveries, each once, and lets be parked what is
// parked when their turn comes.
func (m *model) groups(ds []pawl.Delivery) ([]group, error) {
	var groups []group
	for _, d := range ds {
		n := m.known[d.ID]
		if n == nil || n.lane == nil {
			return nil, fmt.Errorf("%q is not there to be claimed", d.Body)
		}
		if last := len(groups) - 1; last >= 0 && groups[last].lane == n.lane {
			groups[last].ds = append(groups[last].ds, d)
			continue
		}
		if slices.ContainsFunc(groups, func(g group) bool { return g.lane == n.lane }) {
			return nil, fmt.Errorf("%q does not follow the others of its lane", d.Body)
		}
		g := group{lane: n.lane, ds: []pawl.Delivery{d}, stands: n.lane.queue[0], sooner: n.lane.best()}
		m.park(n.lane)
		if n.lane == nil {
			return nil, fmt.Errorf("%q was to be parked", d.Body)
		}
		if !n.lane.claimable() {
			return nil, fmt.Errorf("%q was claimed, but its lane is held", d.Body)
		}
		if first := n.lane.queue[0]; before(g.stands, first) {
			g.stands = first // after what stood before it was parked
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// park sends the doomed of a lane to the dead letters.
func (m *model) park(l *mLane) {
	for _, n := range slices.Clone(l.queue) {
		if m.doomed(n) {
			m.kill(n)
		}
	}
	m.tidy(l)
}

// claimable reports whether a lane can be claimed. One that is closed and may be
// open already can be, but need not.
func (l *mLane) claimable() bool {
	return l.lease == nil && len(l.queue) > 0 && (l.closed == 0 || l.maybe && !l.delayed)
}

// waits reports whether a lane surely can be claimed.
func (m *model) waits(l *mLane) bool {
	return l.lease == nil && len(l.queue) > 0 && l.closed == 0 && !m.doomed(l.queue[0])
}

// weigh is what a message weighs as a suspect.
func weigh(n *mMessage) int { return map[int]int{2: 1, 3: 8}[n.rescues] }

// inSolitude checks what suspects a claim gave.
func (m *model) inSolitude(groups []group, want store.Want, terms store.Lease) error {
	weight := 0
	for _, g := range groups {
		n := g.lane.queue[0]
		weight += weigh(n)
		if n.rescues >= 4 && (!terms.Alone || len(groups) > 1 || m.putOff(terms.For)) {
			return fmt.Errorf("%q is one of %d lanes, alone %t, put off %t", n.Body, len(groups), terms.Alone,
				m.putOff(terms.For))
		}
	}
	if weight > terms.Suspects {
		return fmt.Errorf("suspects that weigh %d; the claim asks for %d", weight, terms.Suspects)
	}
	if !terms.Alone || m.putOff(terms.For) || m.paused || want.Limit == 0 {
		return nil
	}
	for _, l := range m.lanes {
		if !m.waits(l) || l.queue[0].rescues < 4 {
			continue
		}
		if len(groups) == 0 || groups[0].lane != l && (groups[0].lane.queue[0].rescues < 4 ||
			before(l.queue[0], groups[0].lane.queue[0])) {
			return fmt.Errorf("%q waits for solitude", l.queue[0].Body)
		}
	}
	return nil
}

// byRank checks that no better lane was passed over.
func (m *model) byRank(groups []group, want store.Want, terms store.Lease) error {
	var rest []*mLane
	for _, l := range m.lanes {
		must := m.waits(l) && l.queue[0].rescues < 4 && weigh(l.queue[0]) <= terms.Suspects
		if must && !slices.ContainsFunc(groups, func(g group) bool { return g.lane == l }) {
			rest = append(rest, l)
		}
	}
	if len(groups) == 0 && len(rest) > 0 && want.Limit > 0 && !m.paused {
		return fmt.Errorf("nothing was claimed, but %q is there", rest[0].queue[0].Body)
	}
	for _, l := range rest {
		better := func(g group) bool { return before(l.queue[0], g.sooner) && g.lane.queue[0].rescues < 4 }
		i := slices.IndexFunc(groups, better)
		if i < 0 || l.queue[0].rescues >= 2 && !m.isBest(l, groups) {
			continue // a suspect may be passed over, unless it is the best
		}
		return fmt.Errorf("%q was claimed before %q, which ranks better", groups[i].ds[0].Body, l.queue[0].Body)
	}
	for i, g := range groups {
		for _, later := range groups[i+1:] {
			if before(later.stands, g.sooner) {
				return fmt.Errorf("%q comes before %q, which ranks better", g.ds[0].Body, later.ds[0].Body)
			}
		}
	}
	return nil
}

// isBest reports whether the first of a lane surely ranks better than all others: than what was
// claimed, and than what waits, be it behind something that does not fit, or only to be parked.
func (m *model) isBest(l *mLane, groups []group) bool {
	claimed := slices.ContainsFunc(groups, func(g group) bool { return !before(l.queue[0], g.sooner) })
	return !claimed && !slices.ContainsFunc(m.lanes, func(other *mLane) bool {
		return other != l && other.claimable() && !before(l.queue[0], other.best())
	})
}

// best is the message of the lane that ranks best.
func (l *mLane) best() *mMessage {
	best := l.queue[0]
	for _, n := range l.queue {
		if before(n, best) {
			best = n
		}
	}
	return best
}

// take checks one lane's run and leases it.
func (m *model) take(g group, want store.Want, terms store.Lease) error {
	l := g.lane
	if len(g.ds) > want.Run || len(g.ds) > len(l.queue) {
		return fmt.Errorf("a run of %d; the cap is %d, the lane has %d", len(g.ds), want.Run, len(l.queue))
	}
	hard := m.now + m.settings.Deadline
	l.lease = &mLease{fence: g.ds[0].Token.Fence, until: min(m.now+terms.For, hard), hard: hard, owner: terms.Owner,
		alone: terms.Alone && l.queue[0].rescues >= 4}
	l.closed, l.maybe = 0, false
	for i, d := range g.ds {
		n := l.queue[i]
		switch {
		case n.ID != d.ID:
			return fmt.Errorf("%q was claimed before %q, which is first in their lane", d.Body, n.Body)
		case d.Token.Fence != l.lease.fence:
			return fmt.Errorf("%q has another fence than its run", d.Body)
		case n.rescues >= 2 && len(g.ds) > 1:
			return fmt.Errorf("%q is a suspect, but one of a run of %d", d.Body, len(g.ds))
		case d.Attempt != n.attempts+1 || d.Rescues != n.rescues:
			return fmt.Errorf("%q says attempt %d and %d rescues; want %d and %d", d.Body, d.Attempt, d.Rescues,
				n.attempts+1, n.rescues)
		case d.Throttles != n.throttles:
			return fmt.Errorf("%q says %d throttles; want %d", d.Body, d.Throttles, n.throttles)
		case string(d.Body) != string(n.Body) || string(d.Key) != string(n.Key) || d.Priority != n.Priority:
			return fmt.Errorf("%q came as %q with key %q and priority %d", n.Body, d.Body, d.Key, d.Priority)
		case (d.Waited - (m.now - n.visible)).Abs() > 20*time.Second:
			return fmt.Errorf("%q says that it waited %v; want %v", d.Body, d.Waited, m.now-n.visible)
		}
		if n.Unique.For == pawl.UntilClaimed {
			m.freeUnique(&n.Message)
		}
		l.lease.run = append(l.lease.run, n)
	}
	return nil
}
