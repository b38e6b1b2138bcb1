package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/internal/limit"
)

// worker is a goroutine that carries out the messages of one topic, one run
// after the other. It takes the lock once a message: to put down a verdict and
// to pick up what is next.
type worker struct {
	d    *Dispatcher
	t    *topic
	wake chan struct{}
	slab []call              // the next calls, made many at a time
	call *call               // the one that runs
	ds   []*pawl.Delivery    // copies, for a batch handler
	was  []*pawl.Delivery    // what the store returned, of which handlers get copies
	own  []map[string]string // their bounds
	now  time.Duration
}

// part is what a call has of one run: its next n messages, and the bounds of the first.
type part struct {
	run    *run
	n      int
	bounds map[string]string
}

// wakeWorker makes sure that a worker takes the best run of a topic, if it may be
// started. One is woken at a time, and wakes the next one: so few are woken for quick
// work, and all for slow work. The caller holds mu.
func (d *runner) wakeWorker(t *topic) {
	if t.waking > 0 || t.waitingRuns == 0 || !d.starting() || t.best() == nil {
		return
	}
	if n := len(t.idle); n > 0 {
		w := t.idle[n-1]
		t.idle = t.idle[:n-1]
		t.waking++
		signal(w.wake)
		return
	}
	if t.workers < t.Concurrency {
		t.workers++
		t.waking++
		go (&worker{d: t.of, t: t, wake: kick()}).loop()
	}
}

// starting reports whether anything may be started. The caller holds mu.
func (d *runner) starting() bool { return d.phase == working }

func (w *worker) loop() {
	w.d.mu.Lock()
	w.t.waking--
	w.now = w.d.now()
	w.work(nil)
}

// work carries out runs until the dispatcher stops. It is called with mu held,
// and releases it at the end. After a handler has ended the goroutine of the
// worker, it is called again in another one, with that as an error and without
// mu.
func (w *worker) work(gone error) {
	defer w.survive()
	if gone != nil && !w.resume(gone) {
		w.d.mu.Unlock()
		return
	}
	for {
		r := w.d.next(w.t, w.now)
		switch {
		case r != nil:
			w.d.wakeWorker(w.t)
			if !w.carryOut(r) {
				w.d.mu.Unlock()
				return
			}
		case !w.park():
			w.d.mu.Unlock()
			return
		}
	}
}

// survive goes on in a new goroutine when a handler has ended this one with
// runtime.Goexit, as t.FailNow does.
func (w *worker) survive() {
	if w.call != nil {
		w.call.exits++
		go w.work(errGoexit)
	}
}

// resume takes up the call whose handler ended the goroutine. It returns with mu
// held; false when the slot was given away.
func (w *worker) resume(gone error) bool {
	c := w.call
	if !w.conclude(gone, nil) {
		return false
	}
	r := w.onward(c)
	return r == nil || w.carryOut(r)
}

// park waits for work; false when there will be none. The caller holds mu.
func (w *worker) park() bool {
	d, t := w.d, w.t
	if d.phase == stopped {
		t.workers--
		return false
	}
	t.idle = append(t.idle, w)
	if len(d.gathered.items) > 0 && !d.coming() {
		signal(d.settleKick)
	}
	d.mu.Unlock()
	<-w.wake
	d.mu.Lock()
	if d.phase == stopped {
		t.workers--
		return false
	}
	t.waking--
	w.now = d.now()
	return true
}

// next takes the best run that may be started, and a slot for it. The caller
// holds mu.
func (d *runner) next(t *topic, now time.Duration) *run {
	if !d.starting() {
		return nil
	}
	t.forgive(now, -1)
	for {
		r := t.best()
		if r == nil || d.throttle.filling(t, now) {
			return nil
		}
		t.take(r)
		switch {
		case !r.usable(now):
			d.settler.giveUp(r, now, "waited too long in this process")
		case d.throttle.enter(t, r, now):
			return r
		case r.state == waiting:
			return nil // a limit for all of them is reached
		}
	}
}

func (t *topic) occupy(r *run) {
	t.running++
	if r.critical {
		t.criticalRunning++
	}
}

// vacate gives back the slot that occupy took.
func (t *topic) vacate(c *call) {
	t.running--
	if c.critical {
		t.criticalRunning--
	}
}

// carryOut carries out a run that has a slot, or as much of it as may be. It is
// called and returns with mu held; false when the slot was given away meanwhile.
func (w *worker) carryOut(r *run) bool {
	for r != nil {
		c := w.begin(r)
		w.d.mu.Unlock()
		w.begun(c)
		verdicts, err := w.handle(c)
		if !w.conclude(err, verdicts) {
			return false
		}
		r = w.onward(c)
	}
	return true
}

// begin makes the call for the next message of a run, or for the next batch. The
// caller holds mu.
func (w *worker) begin(r *run) *call {
	w.stock()
	c := &w.slab[0]
	w.slab = w.slab[1:]
	c.d, c.started, c.hard, c.critical, c.claimed = w.d, w.now, r.hard, r.critical, r.claim.sent
	c.one[0] = part{run: r, n: 1}
	c.parts = c.one[:]
	c.keys = w.t.keys(r)
	r.call, w.call = c, c
	if w.t.Batch != nil {
		w.gather(c, r)
		return c
	}
	was := r.current()
	own := *was // the handler may write to its copy
	c.delivery = &own
	w.d.limitTime(c, r, &own)
	c.one[0].bounds = boundsOf(&own.Message)
	w.was, w.own = append(w.was[:0], was), append(w.own[:0], c.one[0].bounds)
	if !w.t.quick() {
		// What came with one claim lies in one piece of memory. A slow message
		// must not keep all the others alive.
		was.Body, was.Headers = nil, nil
		if parent := own.Headers[TraceParent]; parent != "" {
			c.trace = map[string]string{TraceParent: parent}
		}
	}
	return c
}

// stock makes sure that there is a call to begin.
func (w *worker) stock() {
	if len(w.slab) == 0 {
		w.slab = make([]call, 16)
	}
}

// gather fills a batch, best rank first. A message that failed before is in a smaller one, a quarter for each attempt:
// where one of them makes the whole batch fail, it is alone before the others have used up their attempts.
func (w *worker) gather(c *call, first *run) {
	t, most := w.t, w.t.fits(first)
	c.parts[0].n = min(len(first.ds)-first.at, most)
	for n := c.parts[0].n; n < most; {
		r := t.front()
		if r == nil || n >= t.fits(r) {
			break
		}
		t.take(r)
		if !r.usable(w.now) {
			w.d.giveUp(r, w.now, "waited too long in this process")
			continue
		}
		most = min(most, t.fits(r))
		add := min(len(r.ds)-r.at, most-n)
		c.parts = append(c.parts, part{run: r, n: add})
		c.hard = min(c.hard, r.hard)
		r.call = c
		n += add
	}
	t.refill()
	w.ds, w.was, w.own = w.ds[:0], w.was[:0], w.own[:0]
	for k := range c.parts {
		p := &c.parts[k]
		own := slices.Clone(p.run.ds[p.run.at:][:p.n])
		for i := range own {
			w.d.limitTime(c, p.run, &own[i])
			w.ds, w.was = append(w.ds, &own[i]), append(w.was, &p.run.ds[p.run.at+i])
			w.own = append(w.own, boundsOf(&own[i].Message))
		}
		p.bounds = w.own[len(w.own)-len(own)]
	}
}

// fits is how many messages a batch with a run has at most.
func (t *topic) fits(r *run) int {
	return max(t.BatchSize>>min(2*max(r.current().Attempt-1, 0), 16), 1)
}

// conclude records the outcome of a call: err, or for a batch that returned its
// verdicts. It returns with mu held; false when the call was abandoned: then this
// goroutine is no longer a worker.
func (w *worker) conclude(err error, verdicts []error) bool {
	d, t, c := w.d, w.t, w.call
	w.now = d.now()
	ran := w.now - c.started
	took := ran
	c.back.Store(true)
	var one [1]entry
	results := one[:1]
	if t.Batch == nil {
		asClaimed(c.delivery, w.was[0], w.own[0])
		d.judge(&results[0], c, c.delivery, err, ran)
	} else {
		ran /= time.Duration(len(w.ds))
		if f, ok := errors.AsType[*pawl.Failure](err); ok && f.Kind == pawl.KindPanic && len(w.ds) > 1 {
			// One of them caused it, and two panics end a message: that counts for one that was alone.
			err = fmt.Errorf("a batch of %d: %w", len(w.ds), f.Err)
		}
		results = make([]entry, len(w.ds))
		for i, del := range w.ds {
			asClaimed(del, w.was[i], w.own[i])
			d.judge(&results[i], c, del, verdictOf(err, verdicts, i), ran)
		}
	}
	var o limit.Outcome
	var after time.Duration
	if len(t.Limits) > 0 {
		o, after = c.outcome(err, verdicts)
	}
	c.returned()
	clear(w.ds)
	clear(w.was)
	clear(w.own)
	w.stock() // not with mu held
	d.mu.Lock()
	w.call, c.over = nil, true
	if c.abandoned {
		d.abandonedReturned(c)
		return false
	}
	t.observe(ran, took)
	t.vacate(c)
	d.exit(t, c, o, after, w.now)
	for _, p := range c.parts {
		p.run.call = nil
		d.reopen(p.run)
		d.recordPart(p, results[:p.n], w.now)
		results = results[p.n:]
	}
	d.tellDrain()
	return true
}

// asClaimed takes back what a handler wrote to its copy of a delivery, but for body and
// those headers which nothing here is decided by.
func asClaimed(own, was *pawl.Delivery, bounds map[string]string) {
	m := was.Message
	m.Body, m.Headers = own.Body, own.Headers
	rebind(&m, bounds)
	own.Message, own.Token, own.Attempt, own.Rescues = m, was.Token, was.Attempt, was.Rescues
	own.Replays, own.Throttles, own.ThrottledFor = was.Replays, was.Throttles, was.ThrottledFor
	own.EnqueuedAt, own.Waited = was.EnqueuedAt, was.Waited
	own.LeaseFor, own.Deadline, own.Tail, own.Log = was.LeaseFor, was.Deadline, was.Tail, was.Log
}

// verdictOf is the i-th verdict of a batch. One that is missing is a failure.
func verdictOf(err error, verdicts []error, i int) error {
	switch {
	case err != nil:
		return err
	case i < len(verdicts):
		return verdicts[i]
	default:
		return errNoVerdict
	}
}

// recordPart records the verdicts over the next messages of a run, up to the
// first that ends it. The caller holds mu.
func (d *runner) recordPart(p part, results []entry, now time.Duration) {
	r := p.run
	r.carryHolds(results)
	for i := range results {
		if r.state != running {
			return
		}
		if r.lost || now >= r.until {
			d.settler.drop(r)
			return
		}
		d.settler.record(r, &results[i])
	}
}

// carryHolds hands the hold of each ack, or retry at the tail, on to what follows it of
// the same run: with a hold it ends the run, and what was carried out behind it would be
// carried out again.
func (r *run) carryHolds(results []entry) {
	for i := range len(results) - 1 {
		st, next := &results[i].settlement, &results[i+1].settlement
		if r.goesOn(st) && next.Verdict != 0 {
			next.Hold = max(next.Hold, st.Hold)
			st.Hold = 0
		}
	}
}

// forget drops the references of a call: calls are allocated many at a time, and one
// that is retained must not retain everything.
func (c *call) forget() { c.parts, c.one = nil, [1]part{} }

// onward decides how a worker goes on after a call: with the next message of
// the same run, which it returns, unless something better waits, or nothing may
// be started. Then the rest of the run waits again, or is given back. The
// caller holds mu.
func (w *worker) onward(c *call) *run {
	d, t := w.d, w.t
	defer d.wakeIfRoom(t, w.now)
	defer c.forget()
	for _, p := range c.parts {
		r := p.run
		if r.state != running {
			continue
		}
		if !d.starting() || !r.usable(w.now) {
			d.giveUp(r, w.now, "stopped before it was started")
			continue
		}
		r.rank = rankOf(t, r.current())
		if t.Batch == nil {
			if b := t.best(); b == nil || r.before(b) {
				if d.enter(t, r, w.now) {
					return r
				}
				continue
			}
		}
		t.executing -= len(r.ds) - r.at
		t.push(r)
	}
	return nil
}
