package kafka

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/laneheap"
)

// flight is a message in hand: fetched, and not yet finished.
type flight struct {
	offset  int64       // of rec, which lies elsewhere in memory
	rec     *kgo.Record // untouched, for the dead letters
	lane    *lane
	next    *flight // in its lane
	seq     int64   // the order in which messages came
	size    int
	state   flightState
	trouble *trouble // nil: none so far
}

type flightState uint8

const (
	waiting flightState = iota
	leased
	dying    // dead, but not yet among the dead letters
	finished // acked, or among the dead letters
)

// trouble is state that only few messages have.
type trouble struct {
	attempts, rescues, lonely, replays int
	rescued                            int64 // when last; at the latest, if another process was

	throttles      int // since it last failed in another way
	throttledSince time.Time

	reason  string
	history []store.Attempt
}

func (f *flight) troubled() *trouble {
	if f.trouble == nil {
		f.trouble = &trouble{}
	}
	return f.trouble
}

// remember restores the history of a replayed message.
func (f *flight) remember(r *kgo.Record) {
	for i := range r.Headers {
		if r.Headers[i].Key != headerReplays {
			continue
		}
		f.troubled().replays, _ = strconv.Atoi(string(r.Headers[i].Value))
		_ = json.Unmarshal([]byte(text(r, headerHistory)), &f.trouble.history) // damaged: without it
	}
}

// solitary reports whether it is carried out alone.
func (f *flight) solitary() bool { return f.trouble != nil && store.Solitary(f.trouble.rescues) }

// weight is what it counts as a suspect.
func (f *flight) weight() int {
	if f.trouble == nil {
		return 0
	}
	return store.Weight(f.trouble.rescues)
}

// lane is messages that are carried out one after the other: those of one key in
// a partition, or a single one without a key.
type lane struct {
	of    *assignment
	id    uint32
	key   string
	keyed bool
	state laneState

	head, tail *flight
	dying      int // of its messages

	lease lease
	until int64 // end of the lease or closure, in nanoseconds of the engine's clock
	hold  int64 // until when it stays closed after its dead letters are written; 0: not
	pos   int   // in the heap where it is
}

type laneState uint8

const (
	empty  laneState = iota
	ready            // claimable
	held             // leased
	closed           // until a retry or hold is over
	stuck            // until a dead letter is written, or a handler of an earlier assignment returns
	aside            // until the partition may hand out more
)

// lease is the right to settle a run.
type lease struct {
	fence   int64
	owner   string
	alone   bool
	started int64
	hard    int64
	last    *flight // of the run
}

func (l *lane) append(f *flight) {
	f.lane = l
	if l.tail == nil {
		l.head = f
	} else {
		l.tail.next = f
	}
	l.tail = f
}

// trim drops what is finished from the head.
func (l *lane) trim() {
	for l.head != nil && l.head.state == finished {
		l.head = l.head.next
	}
	if l.head == nil {
		l.tail = nil
	}
}

// giveBack makes what is left of the run wait again, and drops what is finished of it, or of
// the whole lane where none of it is leased.
func (l *lane) giveBack() {
	var kept *flight
	last := l.lease.last
	for f := l.head; f != nil; f = f.next {
		switch {
		case f.state == finished && kept == nil:
			l.head = f.next
		case f.state == finished:
			kept.next = f.next
			if l.tail == f {
				l.tail = kept
			}
		default:
			if f.state == leased {
				f.state = waiting
			}
			kept = f
		}
		if f == last {
			break
		}
	}
	if l.head == nil {
		l.tail = nil
	}
	l.lease = lease{}
}

// queue is the lanes of a topic that can be claimed, in the order in which their
// first messages came. Lanes that become claimable in that order, as most do,
// cost nothing more than a place in a ring; the others go through a heap.
type queue struct {
	ring  []*lane // of a power of two
	first int
	n     int
	last  int64 // seq of the last one in the ring
	late  laneHeap
}

func (q *queue) push(l *lane) {
	seq := l.head.seq
	if q.n > 0 && seq < q.last {
		q.late.Less = bySeq
		q.late.Push(l)
		return
	}
	if q.n == len(q.ring) {
		ring := make([]*lane, max(64, 2*q.n))
		for i := range q.n {
			ring[i] = q.ring[(q.first+i)&(len(q.ring)-1)]
		}
		q.ring, q.first = ring, 0
	}
	q.ring[(q.first+q.n)&(len(q.ring)-1)] = l
	q.n++
	q.last = seq
}

// best returns the next lane, nil if there is none. Lanes that no longer belong there
// are dropped on the way.
func (q *queue) best() *lane {
	for q.n > 0 && q.ring[q.first].state != ready {
		q.shift()
	}
	for len(q.late.Lanes) > 0 && q.late.Lanes[0].state != ready {
		q.late.Pop()
	}
	switch {
	case len(q.late.Lanes) == 0 && q.n == 0:
		return nil
	case len(q.late.Lanes) == 0 || q.n > 0 && q.ring[q.first].head.seq < q.late.Lanes[0].head.seq:
		return q.ring[q.first]
	default:
		return q.late.Lanes[0]
	}
}

func (q *queue) pop(l *lane) {
	if q.n > 0 && q.ring[q.first] == l {
		q.shift()
		return
	}
	q.late.Pop()
}

// remove takes a lane out from wherever it is. That is rare: it may cost a look at all
// of the ring.
func (q *queue) remove(l *lane) {
	if l.pos < len(q.late.Lanes) && q.late.Lanes[l.pos] == l {
		q.late.Remove(l.pos)
		return
	}
	at := func(i int) **lane { return &q.ring[(q.first+i)&(len(q.ring)-1)] }
	for i := range q.n {
		if *at(i) != l {
			continue
		}
		for ; i+1 < q.n; i++ {
			*at(i) = *at(i + 1)
		}
		*at(i) = nil
		q.n--
		return
	}
}

func (q *queue) shift() {
	q.ring[q.first] = nil
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.n--
}

// laneHeap is a heap of lanes.
type laneHeap = laneheap.Heap[*lane]

// SetPlace implements laneheap.Lane.
func (l *lane) SetPlace(i int) { l.pos = i }

func bySeq(a, b *lane) bool   { return a.head.seq < b.head.seq }
func byUntil(a, b *lane) bool { return a.until < b.until }
