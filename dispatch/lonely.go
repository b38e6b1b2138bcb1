package dispatch

import (
	"slices"
	"time"
)

// A suspect, a message whose lease ended unsettled before, may be what killed
// its worker. It is carried out with nothing beside it, so that its next crash
// is booked on nobody else, and counts. The store hands it out as the only
// delivery of a claim; here we see to the rest.
//
//   - With nothing in flight, a claim promises to stay alone (store.Lease.Alone).
//     A suspect that comes is carried out; nothing is claimed beside it.
//   - A suspect that comes while others are in flight is held: nothing is
//     started, what only waits is given back, and what runs gets a moment to
//     finish. Then the suspect is given back, to be claimed anew alone. If it
//     takes too long, the suspect is carried out in company, and so are others
//     until those slow ones are done.
//   - Suspects and the others take turns.
type lonely struct {
	run     *run // the suspect in flight; one at most
	held    bool // it is not started yet
	alone   bool // it was claimed alone
	holding bool // nothing is started
	since   time.Duration
	slow    []*call // what outlasted a hold

	turnBegan time.Duration // of the suspects' turn; never: it is not theirs
	yield     bool          // the next claims are for the others, whatever is in flight
	yieldFor  time.Duration
	yieldTo   time.Duration // until when
}

const (
	holdFor  = 2 * time.Second // how long what runs may delay a suspect
	turn     = time.Second     // of the suspects, and of the others
	setAside = time.Second     // how long a suspect is put off in the others' turn
)

// suspectOf returns the suspect among the runs of a claim, if there is one: it
// is the only one then.
func (c *claim) suspect() *run {
	if len(c.runs) == 1 && c.runs[0].ds[0].Rescues > 0 {
		return &c.runs[0]
	}
	return nil
}

// mayPromise tells whether the next claim may promise to stay alone. The caller
// holds mu.
func (d *Dispatcher) mayPromise(now time.Duration) bool {
	l := &d.lonely
	return d.held == 0 && d.claiming == 0 && d.zombies == 0 && !l.yield && now >= l.yieldTo
}

// admitSuspect decides what becomes of a suspect that came with a claim. The
// caller holds mu; the run is counted, but not queued.
func (d *Dispatcher) admitSuspect(r *run, alone bool, now time.Duration) {
	l := &d.lonely
	switch {
	case alone:
		if l.turnBegan == never {
			l.turnBegan = now
		}
		l.run, l.alone, l.held = r, true, false
		d.queue(r)
	case l.yield || now < l.yieldTo || l.run != nil:
		d.giveBack(r, setAside+time.Duration(d.cfg.Rand()*float64(setAside/4)), "a suspect waits for its turn")
	case l.crowded():
		d.inCompany(r)
	default:
		l.run, l.alone, l.held, l.holding, l.since = r, false, true, true, now
		for _, t := range d.topics {
			d.emptyQueue(t, now, "makes way for a suspect")
		}
	}
}

// queue puts a run in front of a worker. The caller holds mu.
func (d *Dispatcher) queue(r *run) {
	r.topic.push(r)
	d.wakeWorker(r.topic)
}

// inCompany carries a suspect out beside others, next.
func (d *Dispatcher) inCompany(r *run) {
	d.lonely.run, d.lonely.alone, d.lonely.held = r, false, false
	r.rank = -1 << 63
	d.queue(r)
}

// emptyQueue gives back what waits in a topic.
func (d *Dispatcher) emptyQueue(t *topic, now time.Duration, reason string) {
	t.release(d, now, reason)
	for {
		r := t.front()
		if r == nil {
			return
		}
		d.giveUp(r, now, reason)
	}
}

// solitude says what a suspect in flight means for the claimer: wait is true
// while nothing may be claimed, at most until then. The caller holds mu.
func (d *Dispatcher) solitude(now time.Duration) (wait bool, until time.Duration) {
	l := &d.lonely
	switch {
	case l.run == nil:
		return false, never
	case !l.held:
		return l.alone, never
	case d.held == len(l.run.ds) && d.claiming == 0 && d.zombies == 0:
		d.giveBack(l.run, 0, "claimed anew, alone")
		l.held = false // until that is settled, nothing is claimed
		l.alone = true
		return true, never
	case now >= l.since+holdFor:
		l.slow, l.holding = append(d.calls(), l.slow...), false
		d.inCompany(l.run)
		return false, never
	default:
		return true, l.since + holdFor
	}
}

// crowded tells whether something that outlasted a hold still runs.
func (l *lonely) crowded() bool {
	l.slow = slices.DeleteFunc(l.slow, func(c *call) bool { return c.over })
	return len(l.slow) > 0
}

// ended: the suspect in flight is settled, or lost. Whoever took long yields for
// as long.
func (l *lonely) ended(now time.Duration) {
	l.run, l.held, l.holding = nil, false, false
	if l.alone && l.turnBegan != never && now-l.turnBegan >= turn {
		l.yield, l.yieldFor, l.turnBegan = true, max(now-l.turnBegan, turn), never
	}
}

// others takes note that a claim brought no suspect, but so many of the others.
func (l *lonely) others(now time.Duration, n int) {
	l.turnBegan = never
	if l.yield {
		l.yield = false
		if n > 0 {
			l.yieldTo = now + l.yieldFor
		}
	}
}
