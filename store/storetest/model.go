package storetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The model is what the contract allows one topic to look like. It is written
// to be obviously right, not fast, and shares nothing with any store.
//
// Its time is nominal, from the start of the run. It moves in whole minutes,
// while every lease, delay and hold ends half a minute past one. So nothing is
// due within the seconds that a store's own clock may have moved on meanwhile,
// and what ties in the model ties in the order of appending in the store.
type model struct {
	settings store.Topic
	now      time.Duration
	seq      int
	lanes    []*mLane // in no order
	known    map[string]*mMessage
	deaths   []*mMessage              // the oldest first
	ended    map[string]time.Duration // when each owner last died in company
	uniques  map[pawl.Unique]mUnique
	paused   bool
	totals   store.TopicStats
}

// mMessage is a message of the model, alive, dead or retained.
type mMessage struct {
	pawl.Message
	seq       int  // the order of joining its lane
	late      bool // it was delayed: its ties are open
	rank      time.Duration
	visible   time.Duration
	attempts  int
	throttles int
	rescues   int
	lonely    int
	replays   int
	lane      *mLane // nil: dead or retained
	dead      bool
	forgotten time.Duration // of a retained one
}

// mLane is a lane with something in it, or held.
type mLane struct {
	key     string // of a keyed lane
	keyed   bool
	queue   []*mMessage
	closed  time.Duration // until then; 0: open
	maybe   bool          // closed, but may be open already: whose retry it waited for was cancelled
	delayed bool          // its one message joins its home at closed
	lease   *mLease
}

type mLease struct {
	fence       int64
	until, hard time.Duration
	run         []*mMessage // what is left of it
	owner       string
	alone       bool // in solitude
}

type mUnique struct {
	id    string
	while bool
	until time.Duration // otherwise; 0: for ever
}

func newModel(settings store.Topic) *model {
	return &model{settings: settings, known: map[string]*mMessage{}, uniques: map[pawl.Unique]mUnique{},
		ended: map[string]time.Duration{}}
}

// append returns what the message is a duplicate of, if anything, by its id and
// by its unique key.
func (m *model) append(msg pawl.Message) (byID, byKey string) {
	if old := m.known[msg.ID]; old != nil && !m.forgotten(old) {
		byID = msg.ID
	}
	byKey = m.holder(&msg)
	if byID != "" || byKey != "" {
		m.totals.Duplicates++
		return byID, byKey
	}
	m.takeUnique(&msg)
	n := &mMessage{Message: msg}
	m.known[msg.ID] = n
	m.totals.Appended++
	m.place(n, m.now+msg.Delay)
	return "", ""
}

func (m *model) forgotten(n *mMessage) bool {
	return !n.dead && n.lane == nil && n.forgotten <= m.now
}

// uniqueKey is what a key is taken under, in one topic.
func uniqueKey(msg *pawl.Message) pawl.Unique {
	return pawl.Unique{Key: msg.Unique.Key, Scope: msg.Unique.Scope}
}

// holder returns who has the message's unique key.
func (m *model) holder(msg *pawl.Message) string {
	u, taken := m.uniques[uniqueKey(msg)]
	if msg.Unique.Key == "" || !taken || !u.while && u.until != 0 && u.until <= m.now {
		return ""
	}
	return u.id
}

func (m *model) takeUnique(msg *pawl.Message) {
	if msg.Unique.Key == "" {
		return
	}
	u := mUnique{id: msg.ID, while: msg.Unique.For <= 0}
	if msg.Unique.For > 0 && msg.Unique.For != pawl.Forever {
		u.until = m.now + msg.Unique.For
	}
	m.uniques[uniqueKey(msg)] = u
}

func (m *model) freeUnique(msg *pawl.Message) {
	if u := m.uniques[uniqueKey(msg)]; u.while && u.id == msg.ID {
		delete(m.uniques, uniqueKey(msg))
	}
}

// place puts a message into its lane, or aside until it is visible.
func (m *model) place(n *mMessage, visible time.Duration) {
	m.seq++
	n.seq, n.visible = m.seq, visible
	n.rank = visible + time.Duration(pawl.MaxPriority-n.Priority)*m.settings.Ageing
	m.put(n, visible)
}

// put lets a message join its lane at that time.
func (m *model) put(n *mMessage, due time.Duration) {
	if due > m.now {
		n.late = true
		n.lane = &mLane{queue: []*mMessage{n}, closed: due, delayed: true}
		m.lanes = append(m.lanes, n.lane)
		return
	}
	m.join(n)
}

func (m *model) join(n *mMessage) {
	n.lane = nil
	if n.Key != nil && m.settings.Order == store.OrderKey {
		if i := slices.IndexFunc(m.lanes, func(l *mLane) bool { return l.keyed && l.key == string(n.Key) }); i >= 0 {
			n.lane = m.lanes[i]
		}
	}
	if n.lane == nil {
		n.lane = &mLane{}
		if n.Key != nil && m.settings.Order == store.OrderKey {
			n.lane.key, n.lane.keyed = string(n.Key), true
		}
		m.lanes = append(m.lanes, n.lane)
	}
	n.lane.queue = append(n.lane.queue, n)
}

// advance moves time and lets everything happen that is due, in its order.
func (m *model) advance(d time.Duration) {
	end := m.now + d
	for {
		var next *mLane
		at := end
		for _, l := range m.lanes {
			if due := l.due(); due != 0 && due <= at && (next == nil || due < at || l.joins() < next.joins()) {
				next, at = l, due
			}
		}
		if next == nil {
			break
		}
		m.now = at
		m.happen(next)
	}
	m.now = end
}

// due is when something happens to the lane by itself; 0: nothing.
func (l *mLane) due() time.Duration {
	if l.lease != nil {
		return l.lease.until
	}
	return l.closed
}

// joins orders the delayed messages that are due at one time.
func (l *mLane) joins() int {
	if !l.delayed {
		return 0
	}
	return l.queue[0].seq
}

func (m *model) happen(l *mLane) {
	switch {
	case l.lease != nil:
		m.rescue(l)
	case l.delayed:
		m.drop(l)
		m.seq++
		l.queue[0].seq = m.seq
		m.join(l.queue[0])
	default:
		l.closed, l.maybe = 0, false
		m.tidy(l)
	}
}

// drop forgets a lane.
func (m *model) drop(l *mLane) {
	m.lanes = slices.DeleteFunc(m.lanes, func(other *mLane) bool { return other == l })
}

// tidy forgets a lane that is empty and not held.
func (m *model) tidy(l *mLane) {
	if len(l.queue) == 0 && l.closed == 0 && l.lease == nil {
		m.drop(l)
	}
}

// rescue ends a lease that nobody settled.
func (m *model) rescue(l *mLane) {
	n := l.lease.run[0]
	if l.lease.alone {
		n.lonely++
	} else {
		m.ended[l.lease.owner] = max(m.ended[l.lease.owner], l.lease.until)
	}
	n.rescues++
	m.totals.Rescues++
	l.lease = nil
	if n.lonely >= store.LonelyRescues {
		m.kill(n)
	}
	m.tidy(l)
}

// putOff reports whether deaths keep messages from solitude, for leases of that length.
func (m *model) putOff(lease time.Duration) bool {
	last := slices.Sorted(maps.Values(m.ended))
	return len(last) >= 3 && last[len(last)-3]+10*lease > m.now
}

// leave takes a message out of its lane.
func (m *model) leave(n *mMessage) {
	l := n.lane
	l.queue = slices.DeleteFunc(l.queue, func(other *mMessage) bool { return other == n })
	if l.lease != nil {
		l.lease.run = slices.DeleteFunc(l.lease.run, func(other *mMessage) bool { return other == n })
	}
	n.lane = nil
}

// kill makes a message a dead letter.
func (m *model) kill(n *mMessage) {
	m.leave(n)
	n.dead = true
	m.deaths = append(m.deaths, n)
	m.freeUnique(&n.Message)
}

// settle ends one delivery; false if it must be refused as lost.
func (m *model) settle(l *mLane, fence int64, n *mMessage, s store.Settlement) bool {
	if l == nil || l.lease == nil || l.lease.fence != fence || !slices.Contains(l.lease.run, n) {
		return false
	}
	after := s.Closes()
	switch s.Verdict {
	case store.Ack:
		m.ack(n)
		if len(l.lease.run) == 0 || s.Hold > 0 {
			m.end(l, s.Hold)
		}
		for i, e := range s.Emit {
			e.ID = pawl.EmitID(n.ID, i)
			m.append(e)
		}
		return true
	case store.Dead:
		n.attempts++
		m.kill(n)
	case store.Retry:
		m.totals.Retried++
		if n.throttles++; !s.Throttled {
			n.attempts++
			n.throttles = 0
		}
		if m.settings.Tail && l.keyed {
			m.retryAtTail(l, n, s)
			return true
		}
	}
	m.end(l, after)
	return true
}

// retryAtTail makes a message a delayed one, and lets the run go on.
func (m *model) retryAtTail(l *mLane, n *mMessage, s store.Settlement) {
	m.leave(n)
	m.seq++
	n.seq, n.late = m.seq, true
	m.put(n, m.now+s.After)
	if len(l.lease.run) == 0 || s.Hold > 0 {
		m.end(l, s.Hold)
	}
}

func (m *model) ack(n *mMessage) {
	m.leave(n)
	m.totals.Acked++
	m.freeUnique(&n.Message)
	if n.forgotten = m.now + m.settings.Retain; m.settings.Retain == 0 {
		delete(m.known, n.ID)
	}
}

// end ends a lease and closes the lane for that long.
func (m *model) end(l *mLane, after time.Duration) {
	l.lease = nil
	if after > 0 && (l.keyed || len(l.queue) > 0) {
		l.closed = m.now + after
	}
	m.tidy(l)
}

// cancel removes a message that waits or is delayed.
func (m *model) cancel(n *mMessage) {
	l := n.lane
	l.maybe = l.maybe || l.closed > 0 && l.queue[0] == n
	m.leave(n)
	m.totals.Cancelled++
	m.freeUnique(&n.Message)
	delete(m.known, n.ID)
	if l.delayed || !l.keyed {
		m.drop(l)
	}
	m.tidy(l)
}

// replay appends a dead letter again; false if another has its unique key.
func (m *model) replay(n *mMessage) bool {
	if n.Unique.For <= 0 {
		if m.holder(&n.Message) != "" {
			return false
		}
		m.takeUnique(&n.Message)
	}
	m.takeFromDead(n)
	n.attempts, n.throttles, n.rescues, n.lonely = 0, 0, 0, 0
	n.replays++
	m.place(n, m.now)
	return true
}

func (m *model) takeFromDead(n *mMessage) {
	n.dead = false
	m.deaths = slices.DeleteFunc(m.deaths, func(other *mMessage) bool { return other == n })
}

// state says where a message is.
func (m *model) state(n *mMessage) store.State {
	l := n.lane
	switch {
	case n.dead:
		return store.IsDead
	case l == nil:
		return store.Acked
	case l.lease != nil && slices.Contains(l.lease.run, n):
		return store.Leased
	case l.lease == nil && l.closed > 0 && l.queue[0] == n:
		return store.Delayed
	default:
		return store.Waiting
	}
}

// doomed reports whether a message is parked when its turn comes.
func (m *model) doomed(n *mMessage) bool {
	return m.settings.Park && n.lane.keyed && n.replays == 0 &&
		slices.ContainsFunc(m.deaths, func(d *mMessage) bool { return string(d.Key) == n.lane.key && d.Key != nil })
}

// before is the order of rank.
func before(a, b *mMessage) bool {
	if a.rank == b.rank && (a.late || b.late) {
		return false
	}
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.seq, b.seq)) < 0
}
