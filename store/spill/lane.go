package spill

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// laneKey names a lane: the messages of a topic with one key.
type laneKey struct{ topic, key string }

// lane is the calls that have a message of one key, in the order in which they
// were made, and the latch of the key. It is there while it has a call or is
// latched. Store.mu guards it.
type lane struct {
	laneKey
	calls []*call
	// latched: rows of the key wait in the fallback store, new messages go behind
	// them.
	latched bool
	// last is the id of the last row that this process knows of. With it the latch
	// ends; empty: every row that is known is gone.
	last string
	// unsure: there may be rows that this process does not know of. The latch ends
	// when the fallback store says that there are none.
	unsure bool
	// spilling counts calls that have failed and are not through with it.
	spilling int
}

// call is one Append on its way.
type call struct {
	batch    store.Batch[pawl.Message] // ids are set
	receipts []store.Receipt
	routes   []route // by message; nil: all go to the primary store
	lanes    []*lane
	one      [1]*lane // lanes, of most calls
	blocked  int      // lanes in which another call is first
	ready    chan struct{}
	spilling bool
	answered bool // the primary store answered for each message
}

// route is where a message goes first.
type route uint8

const (
	toPrimary route = iota
	behind          // behind the rows of its key
	aside           // its topic is down
	nowhere         // no store takes it
)

// join puts the call into the lanes of its messages.
func (s *Store) join(c *call) {
	c.lanes = c.one[:0]
	for i := range c.batch.Items {
		m := &c.batch.Items[i]
		if m.Key == nil || c.receipts[i].Outcome() == store.Refused {
			continue
		}
		l := s.lane(m.Topic, m.Key)
		if n := len(l.calls); n > 0 && l.calls[n-1] == c {
			continue // another message of the same key
		}
		s.joinLane(c, l)
	}
}

func (s *Store) joinLane(c *call, l *lane) {
	l.calls = append(l.calls, c)
	c.lanes = append(c.lanes, l)
	if len(l.calls) > 1 {
		c.blocked++
	}
}

// maxSpare is how many unused lanes are kept for reuse.
const maxSpare = 1000

// lane returns the lane of a key, made if need be.
func (s *Store) lane(topic string, key []byte) *lane {
	if l := s.lanes[laneKey{topic, string(key)}]; l != nil {
		return l
	}
	l := &lane{}
	if n := len(s.spare); n > 0 {
		l, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	l.laneKey = laneKey{topic, string(key)}
	s.lanes[l.laneKey] = l
	return l
}

// leave takes the call out of its lanes, and lets those behind it go on.
func (s *Store) leave(c *call) {
	for _, l := range c.lanes {
		if c.spilling {
			l.spilling--
		}
		at := slices.Index(l.calls, c)
		l.calls = slices.Delete(l.calls, at, at+1)
		if at == 0 && len(l.calls) > 0 {
			next := l.calls[0]
			if next.blocked--; next.blocked == 0 && next.ready != nil {
				close(next.ready)
			}
		}
		s.drop(l)
	}
	c.lanes = nil
}

// drop ends the latch of a lane whose rows are gone, and forgets an unused lane. A call
// that is about to add a row keeps the latch.
func (s *Store) drop(l *lane) {
	if len(l.calls) > 0 {
		return
	}
	if l.latched && l.last == "" && !l.unsure {
		s.setLatch(l, false)
	}
	if !l.latched && s.lanes[l.laneKey] == l {
		delete(s.lanes, l.laneKey)
		if *l = (lane{calls: l.calls[:0]}); len(s.spare) < maxSpare {
			s.spare = append(s.spare, l)
		}
	}
}

// setLatch sets or ends a latch, and counts.
func (s *Store) setLatch(l *lane, on bool) {
	if l.latched == on {
		return
	}
	l.latched = on
	if on {
		s.latched.Add(1)
	} else {
		s.latched.Add(-1)
		l.last, l.unsure = "", false
	}
	s.noteActive()
}

// await waits until the call is first in all its lanes. Store.mu is locked before
// and after, also when it fails; the caller leaves.
func (s *Store) await(ctx context.Context, c *call) error {
	if c.blocked == 0 {
		return nil
	}
	c.ready = make(chan struct{})
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return &store.Error{Op: "append", Err: ctx.Err()}
	case <-s.stop.Done():
		return closedError("append")
	}
}

// mayPass reports whether the call need not wait for those before it: the primary
// store keeps their order, and none of them is in trouble.
func (s *Store) mayPass(c *call) bool {
	if !s.cfg.Pipelined || s.share.others.Load() {
		return false
	}
	for _, l := range c.lanes {
		if l.latched || l.spilling > 0 {
			return false
		}
	}
	return true
}

// gone says that a row is in the fallback store no more: the primary store has it,
// or it is a dead letter.
func (s *Store) gone(topic string, key []byte, id string) {
	if key == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[laneKey{topic, string(key)}]
	if l == nil || !l.latched {
		return
	}
	if l.last == id {
		l.last = ""
	}
	if l.unsure {
		s.dirty[l.laneKey] = true
	}
	s.drop(l)
}
