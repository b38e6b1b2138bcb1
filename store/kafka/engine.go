package kafka

import (
	"iter"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// engine holds the messages of the partitions that are assigned to this process, in lanes. It
// deals with records and offsets, not with clients or brokers, and does no I/O. The code that
// talks to the brokers calls assign, take, drain and drop.
type engine struct {
	now    func() time.Time // goes on where the wall clock is set back
	wall   func() time.Time // that of records
	limits Consuming

	mu     sync.Mutex // never held across I/O or a wait
	seq    int64      // of messages
	nextID int32
	byID   map[int32]*assignment // live, and those in which a handler still runs
	topics map[string]*topic
	bytes  int
	// crowded: something waits for bytes of any partition, not only of its own.
	crowded bool

	timed     laneHeap // leased and closed lanes, by until
	leftovers map[string]*leftover

	deaths    []*death // to be written
	dying     chan struct{}
	room      chan struct{} // there may be room for what was fetched
	dirty     chan struct{} // there may be something to commit
	listeners map[chan struct{}]map[string]bool
	alarm     *time.Timer
	alarmAt   int64
	isClosed  bool

	lateAcks, overlaps uint64 // totals
}

type topic struct {
	Name string // never changes, and is read without mu; the settings change
	store.Topic
	pause      *store.Pause
	ready      queue
	partitions map[int32]*assignment
	memories   map[int32]*lostProgress
	deadByKey  map[string]int // dead letters by key, for parking
	rescues    int64
	died       store.Deaths // beside other work
	retried    int64
	// totals
	taken, failed uint64
	lost          map[int32]uint64 // to retention, by partition
}

// death is a message on its way to the dead letters.
type death struct {
	flight *flight
	kind   pawl.Kind
	reason string
	at     time.Time
	done   chan struct{} // closed when it is written, or given up with its partition
	tries  int           // to write it
}

// leftover is a lane of an earlier assignment in which a handler still runs: the lane of the
// same key waits for it, so that messages carried out here keep their order.
type leftover struct {
	old     *lane
	waiting *lane
}

func newEngine(now func() time.Time, limits Consuming) *engine {
	e := &engine{
		now: now, wall: now, limits: limits,
		byID: map[int32]*assignment{}, topics: map[string]*topic{}, leftovers: map[string]*leftover{},
		dying: make(chan struct{}, 1), room: make(chan struct{}, 1), dirty: make(chan struct{}, 1),
		listeners: map[chan struct{}]map[string]bool{},
	}
	e.timed.Less = byUntil
	return e
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (e *engine) topic(name string) *topic {
	t := e.topics[name]
	if t == nil {
		t = &topic{Name: name, Topic: store.NewTopic(name), partitions: map[int32]*assignment{},
			memories: map[int32]*lostProgress{}, deadByKey: map[string]int{}, lost: map[int32]uint64{}}
		e.topics[name] = t
	}
	return t
}

// countDead takes note of how many dead letters a key has.
func (e *engine) countDead(name, key string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.topic(name)
	if n > 0 {
		t.deadByKey[key] = n
	} else {
		delete(t.deadByKey, key)
	}
}

// open makes a lane claimable, if it has anything to be claimed.
func (e *engine) open(l *lane) {
	l.trim()
	if len(l.of.condemned) > 0 && l.of.state == live {
		for f := l.head; f != nil; f = f.next {
			e.skipRequested(f)
		}
	}
	switch {
	case l.dying > 0:
		l.state = stuck
	case l.head == nil:
		l.state = empty
		l.of.forget(l)
	case l.of.state != live:
		l.state = empty
	default:
		l.state = ready
		l.of.topic.ready.push(l)
	}
}

// close keeps a lane from being claimed until then.
func (e *engine) close(l *lane, until int64) {
	l.trim()
	if l.of.state != live {
		l.state = empty
		return
	}
	l.state, l.until = closed, until
	e.timed.Push(l)
	e.setAlarm()
}

// finish counts a message as done: acked, or a dead letter.
func (e *engine) finish(f *flight) {
	a := f.lane.of
	f.state = finished
	if a.state == gone {
		e.lateAcks++
		return // what was in hand there is counted no more
	}
	a.gate.Finish(f.offset)
	delete(a.tries, f.offset)
	a.inHand--
	a.bytes -= f.size
	e.bytes -= f.size
	a.unlist(f)
	if a.crowded || e.crowded {
		a.crowded, e.crowded = false, false
		signal(e.room)
	}
	e.touch(a)
}

// enter locks the engine and processes what is due.
func (e *engine) enter(op string) (now int64, err error) {
	e.mu.Lock()
	if e.isClosed {
		e.mu.Unlock()
		return 0, &store.Error{Op: op, Code: store.ErrClosed}
	}
	now = e.now().UnixNano()
	e.sweep(now)
	return now, nil
}

// die sends a message to the dead letters. Its lane is blocked until the letter is
// written.
func (e *engine) die(f *flight, kind pawl.Kind, reason string) *death {
	l := f.lane
	f.state, l.state = dying, stuck
	l.of.dying++
	l.dying++
	if t := l.of.topic; t.Park && l.keyed {
		t.deadByKey[l.key] = max(1, t.deadByKey[l.key]) // until the log of dead letters is read
	}
	d := &death{flight: f, kind: kind, reason: reason, at: e.wall(), done: make(chan struct{})}
	e.deaths = append(e.deaths, d)
	signal(e.dying)
	return d
}

// letterWritten ends a death: its message is among the dead letters.
func (e *engine) letterWritten(d *death) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(d.done)
	l := d.flight.lane
	l.of.dying--
	l.dying--
	e.finish(d.flight)
	l.giveBack()
	if l.dying == 0 && l.of.state == live {
		until := l.hold
		l.hold = 0
		e.reopen(l, until, e.now().UnixNano())
	}
	l.of.settled()
}

// reopen opens a lane, or closes it if until is later than now. An empty lane of one's own
// has nothing to hold back.
func (e *engine) reopen(l *lane, until, now int64) {
	if until > now && (l.keyed || l.head != nil) && !l.hasSkip() {
		e.close(l, until)
		return
	}
	e.open(l)
	if l.state == ready {
		e.wake(l.of.topic.Name)
	}
}

// lease gives out the first n messages of a lane.
func (e *engine) lease(l *lane, n int, terms *store.Lease, fence, now int64) {
	hard := now + int64(l.of.topic.Deadline)
	l.state = held
	l.until = min(now+int64(terms.For), hard)
	f := l.head
	for i := 1; ; i++ {
		f.state = leased
		if i == n {
			break
		}
		f = f.next
	}
	l.lease = lease{fence: fence, owner: terms.Owner, alone: terms.Alone && l.head.solitary(), started: now,
		hard: hard, last: f}
	l.of.handOut(f.offset)
	e.touch(l.of)
	e.timed.Push(l)
}

// unlease ends a lease; the rest of the run stays as it is.
func (e *engine) unlease(l *lane) {
	e.timed.Remove(l.pos)
	a := l.of
	a.leased--
	e.touch(a)
	switch {
	case a.state == gone:
		e.openAfterLeftover(l)
	case a.state == draining:
		a.settled()
	case len(a.setAside) > 0 && !a.full():
		e.resume(a)
	}
}

// at returns the assignment of a partition; nil if there is none.
func (e *engine) at(name string, partition int32) *assignment {
	if t := e.topics[name]; t != nil {
		return t.partitions[partition]
	}
	return nil
}

// touch takes note that there is something to commit.
func (e *engine) touch(a *assignment) {
	if !a.touched {
		a.touched = true
		if a.owed == 0 {
			a.owed = e.now().UnixNano()
		}
		signal(e.dirty)
	}
}

// held returns the lane and the message that a token is valid for; nothing if it is
// stale.
func (e *engine) held(tok pawl.Token) (*lane, *flight) {
	f := e.locate(tok)
	if f == nil || f.state != leased || f.lane.id != uint32(tok.Lane) || f.lane.lease.fence != tok.Fence {
		return nil, nil
	}
	return f.lane, f
}

// locate returns the message at the place that a token names, if it is in hand.
func (e *engine) locate(tok pawl.Token) *flight {
	a := e.byID[int32(tok.Lane>>32)]
	if a == nil {
		return nil
	}
	return a.find(tok.Seq)
}

func tokenOf(f *flight) pawl.Token {
	l := f.lane
	return pawl.Token{Fence: l.lease.fence, Lane: int64(l.of.id)<<32 | int64(l.id), Seq: f.offset}
}

// heldOf are the leased lanes of an assignment.
func (e *engine) heldOf(a *assignment) iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		for _, l := range e.timed.Lanes {
			if l.of == a && l.state == held && !yield(l) {
				return
			}
		}
	}
}

// setUntil changes when a lease ends.
func (e *engine) setUntil(l *lane, until int64) {
	e.timed.Remove(l.pos)
	l.until = until
	e.timed.Push(l)
}

func (t *topic) paused(now int64) bool {
	return t.pause != nil && (t.pause.Until.IsZero() || t.pause.Until.After(time.Unix(0, now)))
}
