package memory

import (
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/laneheap"
)

// lane is messages that are carried out one after the other. It is in one place
// at a time: among its topic's ready lanes; among the due ones, while it is
// leased or closed; or in none, when it is empty.
type lane struct {
	id    int64
	topic *topic
	key   string // of a keyed lane
	keyed bool
	queue []*message

	heap *laneHeap // where it is
	pos  int       // in heap

	until   time.Time // end of lease or closure
	delayed bool      // closed, and its message joins its home lane at until
	lease   *lease    // nil: not leased
}

// lease is the right to settle a run.
type lease struct {
	store.Lease // Alone: its message is carried out alone
	fence       int64
	started     time.Time
	hard        time.Time
	run         int   // how many of the queue's first messages are in the run
	last        int64 // seq of the last message of the run
}

// laneHeap is a heap of lanes.
type laneHeap = laneheap.Heap[*lane]

// SetPlace implements laneheap.Lane.
func (l *lane) SetPlace(i int) { l.pos = i }

func byRank(a, b *lane) bool {
	x, y := a.queue[0], b.queue[0]
	return x.Rank < y.Rank || x.Rank == y.Rank && x.seq < y.seq
}

func byUntil(a, b *lane) bool {
	return a.until.Before(b.until) || a.until.Equal(b.until) && a.id < b.id
}

// move takes the lane out of the heap it is in, and puts it into to, if any.
func (l *lane) move(to *laneHeap) {
	if l.heap != nil {
		l.heap.Remove(l.pos)
	}
	l.heap = to
	if to != nil {
		to.Push(l)
	}
}

// place gives a message its lane: its home, or one of its own until it is
// visible.
func (s *core) place(t *topic, m *message, visible, now time.Time) {
	s.seq++
	m.seq = s.seq
	if m.visible.IsZero() { // a delayed message keeps its rank when it joins its lane
		m.visible, m.Rank = visible, t.Rank(visible, m.Priority)
	}
	if visible.After(now) {
		l := &lane{id: m.seq, topic: t, delayed: true, queue: []*message{m}}
		m.lane = l
		s.close(l, visible)
		return
	}
	l := s.home(t, m)
	l.queue = append(l.queue, m)
	m.lane = l
	if len(l.queue) == 1 && l.heap == nil {
		s.open(l)
	}
}

// home is the lane that a visible message belongs to.
func (s *core) home(t *topic, m *message) *lane {
	if m.Key == nil || t.Order != store.OrderKey {
		return &lane{id: m.seq, topic: t}
	}
	k := string(m.Key)
	if t.keyed[k] == nil {
		s.seq++
		t.keyed[k] = &lane{id: s.seq, topic: t, key: k, keyed: true}
	}
	return t.keyed[k]
}

// open makes a lane claimable, or forgets it when it is empty.
func (s *core) open(l *lane) {
	delete(s.lanes, l.id)
	l.lease, l.until = nil, time.Time{}
	if len(l.queue) == 0 {
		l.move(nil)
		if l.keyed {
			delete(l.topic.keyed, l.key)
		}
		return
	}
	l.topic.ready.Less = byRank
	l.move(&l.topic.ready)
	s.wake(l.topic.Name)
}

// close keeps a lane from being claimed until then.
func (s *core) close(l *lane, until time.Time) {
	l.lease, l.until = nil, until
	s.watch(l)
}

// watch puts a leased or closed lane among the due ones, by its until.
func (s *core) watch(l *lane) {
	s.due.Less = byUntil
	s.lanes[l.id] = l
	l.move(&s.due)
}

// take removes a message from its lane.
func (l *lane) take(m *message) {
	for i := range l.queue {
		if l.queue[i] != m {
			continue
		}
		if i == 0 { // the usual case, without moving the rest
			l.queue[0] = nil
			l.queue = l.queue[1:]
		} else {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
		}
		m.lane = nil
		return
	}
}

// leave takes a message out of the run and the lane.
func (l *lane) leave(m *message) {
	l.take(m)
	l.lease.run--
}
