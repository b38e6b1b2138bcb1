package dispatch

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/dispatch/internal/rank"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// topic is the state of one of a dispatcher's topics. Everything but the configuration
// is guarded by Dispatcher.mu.
type topic struct {
	Topic
	of       *Dispatcher
	kept     atomic.Pointer[policy.Retries] // what an operator has set; nil: nothing
	ageing   time.Duration                  // set before anything is claimed
	restless restless
	// targets are the topics that it gives way to while they are full.
	targets []string

	// What was claimed and is not started, best rank first; apart, what may use
	// the reserved slots. Runs that are over stay in until they come up.
	bulk, critical rank.Queue[*run]
	waitingRuns    int
	waiting        int // messages in waiting runs

	// fills is when the batch that gathers here is handed out, full or not: only with a
	// BatchWait, and while something waits.
	fills time.Duration

	running         int // slots in use
	criticalRunning int // of these, by runs of the highest priority
	executing       int // messages in the hands of handlers, and behind them in their runs
	asked           int // by claims on their way, at most
	zombies         int // handlers that outlived their slot

	idle    []*worker // the last one to have worked is the first to be woken: its stack is warm
	workers int       // goroutines, idle ones included, zombies not
	waking  int       // woken and not yet at work

	perRun   float64       // how many messages a run brings, moving
	mean     time.Duration // of a handler's time per message, moving
	took     time.Duration // of a call, moving
	measured bool
	pace     pace
	counts   counts
	failures failureLog
	releases failureLog // of handlers

	// keptSince orders the topics that a limit for all keeps from beginning; 0: none
	// does.
	keptSince uint64

	held []heldRun // runs that wait for a limit by a key
	// limitedBy is the limiter that last kept something from beginning, or from
	// being claimed, and limitedAt when that was.
	limitedBy *Limiter
	limitedAt time.Duration

	owes []owed // slots that are kept for lanes whose last verdict is on its way
	low  lowest
	gap  time.Duration // how long one is kept, moving

	opens time.Duration // when a limit opens that something waits for; never: when a call ends
}

const (
	// ahead is how much measured work is held beside what the slots hold.
	aheadTime = 20 * time.Millisecond
	maxAhead  = 2000
	// maxClaim is how many messages of a topic are claimed at once at most.
	maxClaim = 1000
	// stale is how long a message waits here before it is given back, because
	// the handlers turned out slower than measured.
	stale = time.Second
)

// batch is how many messages a slot takes at once.
func (t *topic) batch() int { return max(t.BatchSize, 1) }

// ahead is how many messages to hold beside those in the slots: what the
// handlers carry out in a short time, as measured.
func (t *topic) ahead() int {
	if !t.measured {
		return 0
	}
	n := float64(aheadTime) * float64(t.Concurrency) / float64(max(t.mean, 1))
	return int(min(n, maxAhead))
}

// runLength is how many messages of one lane to ask for: as many as take a
// short time, so that a lane with much work does not hold on to a slot.
func (t *topic) runLength() int {
	if t.Room != nil {
		_, _, run := t.Room.Lanes()
		return run
	}
	if !t.measured {
		return 1
	}
	return int(min(max(aheadTime/max(t.mean, 1), 1), store.DefaultRun))
}

// freeSlots is how many slots could take a message of normal priority.
func (t *topic) freeSlots() int {
	return max(t.Concurrency-t.running-max(t.Reserved-t.criticalRunning, 0), 0)
}

// room is how many messages to claim now; 0 while enough is held. Slots that
// would stay idle count at once, work ahead only when half of it is used up: so
// that quick handlers get large batches, and slow ones hold nothing.
func (t *topic) room() int {
	n := t.space()
	if t.Room != nil {
		n = min(n, t.welcome())
	}
	if len(t.Limits) == 0 {
		return max(n, 0)
	}
	allowed, _, _ := t.allowed()
	return max(min(n, allowed*t.batch()-t.waiting-t.asked), 0)
}

// welcome is how many messages a handler with a queue of its own still takes. What topics
// that share its room have counts, and each of them claims its share.
func (t *topic) welcome() int {
	lanes, worth, _ := t.Room.Lanes()
	asked, topics := 0, 0
	for _, o := range t.of.topics {
		if o.Room == t.Room {
			lanes -= o.running + o.waitingRuns
			asked += o.asked
			topics++
		}
	}
	if lanes < worth {
		return 0
	}
	n := int(float64(lanes)*max(t.perRun, 1)) - asked
	return (n + topics - 1) / topics
}

// space is the room that slots and work ahead leave, whatever the limits say.
func (t *topic) space() int {
	owed := t.unclaimable()
	missing := max(t.freeSlots()-t.slotsOf(owed), 0)*t.batch() - t.asked
	if t.Batch != nil {
		missing -= t.waiting
	} else {
		missing -= max(t.waitingRuns-(len(t.owes)-owed), 0) // what waits may not have a slot that is owed
	}
	ahead := t.ahead()
	if missing <= 0 && (ahead == 0 || t.waiting+t.asked > ahead/2) {
		return 0
	}
	held := t.waiting + t.executing + t.asked + owed
	return min(max(t.Concurrency*t.batch()+ahead-held, missing, 0), maxClaim)
}

// observe takes what a call took, and that for each of its messages, into the means.
func (t *topic) observe(each, call time.Duration) {
	if !t.measured {
		t.measured, t.mean, t.took = true, each, call
		return
	}
	t.mean += (each - t.mean) / 16
	t.took += (call - t.took) / 16
}

// quick reports whether a handler is so quick that its next verdicts are worth
// waiting for, to settle more at once.
func (t *topic) quick() bool { return t.measured && t.mean < time.Millisecond }

// gathers reports whether so many verdicts are about to come that the first one had
// better wait for them: handlers are quick, or so many of them are running that
// some end all the time.
func (t *topic) gathers() bool {
	return t.quick() || t.measured && time.Duration(t.running)*linger >= worthwhile*t.mean
}

// worthwhile is how many verdicts are worth waiting for.
const worthwhile = 8

// push puts a run among those that wait.
func (t *topic) push(r *run) {
	r.state = waiting
	if t.BatchWait > 0 {
		t.fill(r)
	}
	t.waitingRuns++
	t.waiting += len(r.ds) - r.at
	if r.critical && t.Reserved > 0 {
		t.critical.Push(r.rank, r.tie(), r)
	} else {
		t.bulk.Push(r.rank, r.tie(), r)
	}
}

// unqueue takes a run out of the count of those that wait; it leaves its queue
// when it comes up.
func (t *topic) unqueue(r *run) {
	t.waitingRuns--
	t.waiting -= len(r.ds) - r.at
}

// best returns the best run that a free slot may take, or nil.
func (t *topic) best() *run {
	var b, c *run
	if n := t.freeSlots(); n > 0 {
		if b = head(&t.bulk); b != nil && len(t.owes) > 0 && n <= t.owedBefore(b) {
			b = nil
		}
	}
	if t.running < t.Concurrency {
		c = head(&t.critical)
	}
	return first(b, c)
}

// front returns the best run, whether a slot is free for it or not.
func (t *topic) front() *run {
	return first(head(&t.bulk), head(&t.critical))
}

// first returns the run that goes first; either may be nil.
func first(a, b *run) *run {
	if a == nil || b != nil && b.before(a) {
		return b
	}
	return a
}

// take takes a run that best or front returned out of its queue.
func (t *topic) take(r *run) {
	if r.critical && t.Reserved > 0 {
		t.critical.Pop()
	} else {
		t.bulk.Pop()
	}
	t.unqueue(r)
	r.state = running
	t.executing += len(r.ds) - r.at
}

// head returns the first run that still waits.
func head(q *rank.Queue[*run]) *run {
	for {
		r, ok := q.Peek()
		if !ok {
			return nil
		}
		if r.state == waiting {
			return r
		}
		q.Pop()
	}
}

// worst returns the waiting run with the worst rank.
func (t *topic) worst() *run {
	var worst *run
	for r := range t.queued() {
		if worst == nil || worst.before(r) {
			worst = r
		}
	}
	return worst
}

// queued are the runs that wait, in no order.
func (t *topic) queued() iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for _, q := range []*rank.Queue[*run]{&t.bulk, &t.critical} {
			for r := range q.All() {
				if r.state == waiting && !yield(r) {
					return
				}
			}
		}
	}
}

// The functions below let a batch gather before it is handed out. Their callers
// hold mu.

// fill takes into account when a run that begins to wait must be handed out.
func (t *topic) fill(r *run) {
	if at := t.handOut(r); t.waitingRuns == 0 || at < t.fills {
		t.fills = at
	}
}

// handOut is when a run that waits must be handed out.
func (t *topic) handOut(r *run) time.Duration {
	return r.claim.sent + min(t.BatchWait, r.ds[0].Deadline/4)
}

// refill computes it again from the runs that still wait.
func (t *topic) refill() {
	if t.BatchWait == 0 {
		return
	}
	t.fills = never
	for r := range t.queued() {
		t.fills = min(t.fills, t.handOut(r))
	}
}

// filling reports whether the next batch is not full and may wait for more; it schedules
// another look at the topic for when it no longer may.
func (d *throttle) filling(t *topic, now time.Duration) bool {
	if t.BatchWait == 0 || t.waiting >= t.BatchSize || now >= t.fills {
		return false
	}
	d.openAt(t, now, t.fills-now)
	return true
}

// stale is how long a message of the topic waits here before it is given back.
func (t *topic) stale() time.Duration { return stale + t.BatchWait }
