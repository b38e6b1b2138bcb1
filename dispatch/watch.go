package dispatch

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/internal/limit"
	"github.com/pawl-dev/pawl/store"
)

// watcher keeps leases alive, ends what takes too long, and tells others of this process.
type watcher struct {
	*engine
	throttle   *throttle
	runner     *runner
	settler    *settler
	claimer    *claimer
	registered *registration // nil: it is not

	// mu of the engine guards what follows.
	watchAt time.Duration // when it looks next
	beatAt  time.Duration // when leases are extended next
}

// graceLost is how long a handler whose lease is lost has to return before its slot is
// released.
const graceLost = time.Second

// judging is when to look again at a handler that has returned so late that it would
// be given up, and is being judged: one of the two decides about it, not both. An error
// whose methods do not return is given up after longestJudging, or while that can be settled.
const (
	judging        = 10 * time.Millisecond
	longestJudging = 5 * time.Second
)

var errAbandoned = errors.New("the handler did not return after its context had ended")

// ending is a context to be ended, once mu is not held any more.
type ending struct {
	call  *call
	cause error
}

func endAll(endings []ending) {
	for _, e := range endings {
		e.call.end(e.cause)
	}
}

// abandonment is a call that was given up, with the parts it was at: its handler
// may return at any time, and the call then forgets them.
type abandonment struct {
	call  *call
	parts []part
}

// watchLoop enforces times: leases that run out, deadlines, handlers that do not
// return, messages that wait here for too long. It keeps no timer per message; it looks
// through what is held when something in it may be due.
func (d *watcher) watchLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var endings []ending
		var abandoned []abandonment
		d.mu.Lock()
		now := d.engine.now()
		if d.throttle.limitsMoved.Swap(false) {
			d.throttle.limitsOpen(nil, now)
		}
		if now >= d.watchAt {
			endings, abandoned = d.watch(now)
			d.watchAt = min(d.watchAt, d.throttle.open(now))
		}
		wait := min(d.watchAt-now, time.Hour)
		if d.cfg.Observer != nil && d.held > 0 {
			wait = min(wait, loadEvery)
		}
		d.mu.Unlock()
		endAll(endings)
		for _, a := range abandoned {
			d.settleAbandoned(a)
		}
		d.observeLoad()
		timer.Reset(wait)
		select {
		case <-d.watchKick:
		case <-timer.C:
		case <-d.stop:
			return
		}
	}
}

// watch looks through the claims in which something is due. The caller holds mu.
func (d *watcher) watch(now time.Duration) (endings []ending, abandoned []abandonment) {
	d.watchAt = never
	for i := len(d.claims) - 1; i >= 0; i-- { // from the end: claims may leave meanwhile
		if i >= len(d.claims) {
			continue
		}
		c := d.claims[i]
		if now >= c.check {
			c.check = never
			for j := range c.runs {
				e, a := d.watchRun(&c.runs[j], now)
				endings, abandoned = append(endings, e...), append(abandoned, a...)
			}
		}
		if c.live > 0 {
			d.watchAt = min(d.watchAt, c.check)
		}
	}
	return endings, abandoned
}

// watchRun looks after one run and notes when to look again.
func (d *watcher) watchRun(r *run, now time.Duration) (endings []ending, abandoned []abandonment) {
	c := r.claim
	switch r.state {
	case aside, waiting:
		switch {
		case now >= r.until:
			d.settler.drop(r)
		case r.state == waiting && now >= c.sent+r.topic.stale():
			d.tooSlow(r.topic, now)
			prio := r.current().Priority
			d.settler.giveBack(r, 0, "waited too long in this process")
			d.throttle.keepSlot(r, prio)
		case r.state == waiting:
			c.check = min(c.check, c.sent+r.topic.stale())
		}
		c.check = min(c.check, r.until)
	case running:
		k := r.call
		if k == nil {
			return nil, nil // abandoned, and about to be settled
		}
		switch {
		case k.ending && now >= k.force && k.back.Load() && (k.judged == 0 || now < k.judged):
			k.judged = cmp.Or(k.judged, min(now+longestJudging, r.force()+(r.last-r.hard)/8))
			k.force = now + judging
		case k.ending && now >= k.force:
			return nil, []abandonment{d.abandon(k)}
		case !k.ending && now >= k.hard:
			k.ending, k.force = true, r.force()
			endings = append(endings, ending{k, pawl.ErrDeadline})
		case !r.lost && now >= r.until:
			endings = d.lose(r, now)
		}
		if k.ending {
			c.check = min(c.check, k.force)
		} else {
			c.check = min(c.check, k.hard)
		}
		if !r.lost {
			c.check = min(c.check, r.until)
		}
	}
	return endings, nil
}

// lose takes note that the lease of a run is lost. What waits is forgotten; what
// runs is told, and its lane stays closed here until the handler returns. A
// batch is told when all its leases are lost. The caller holds mu.
func (d *watcher) lose(r *run, now time.Duration) []ending {
	if r.lost || r.state == over {
		return nil
	}
	r.lost = true
	if r.state != running {
		d.settler.drop(r)
		return nil
	}
	if r.call == nil {
		return nil // given up: the lane is closed as long as the handler runs
	}
	d.close(r)
	for _, p := range r.call.parts {
		if !p.run.lost {
			return nil
		}
	}
	if r.call.ending {
		return nil
	}
	r.call.ending, r.call.force = true, now+graceLost
	d.lookAt(r, r.call.force)
	return []ending{{r.call, pawl.ErrLeaseLost}}
}

// lookAt looks after a run at that time, or before. The caller holds mu.
func (d *watcher) lookAt(r *run, at time.Duration) {
	if r.claim.check = min(r.claim.check, at); r.claim.check < d.watchAt {
		d.watchAt = r.claim.check
		signal(d.watchKick)
	}
}

// limitTime lets the context of a call end when an attempt of a message of it has taken as long as that says. The
// caller holds mu.
func (d *watcher) limitTime(c *call, r *run, del *pawl.Delivery) {
	if own := del.TimeLimit(); own > 0 && c.started+own < c.hard {
		c.hard, c.limit = c.started+own, own
		d.lookAt(r, c.hard)
	}
}

// tooSlow takes into account that what runs now takes longer than measured, so
// that less is held. The caller holds mu.
func (d *watcher) tooSlow(t *topic, now time.Duration) {
	for _, c := range d.claims {
		for i := range c.runs {
			if r := &c.runs[i]; r.topic == t && r.call != nil {
				t.mean = max(t.mean, (now-r.call.started)/time.Duration(t.batch()))
			}
		}
	}
}

// abandon releases the slot of a call whose handler does not return: it is a zombie
// from now on, and its lanes stay closed here until it returns. The caller holds mu.
func (d *watcher) abandon(c *call) abandonment {
	t := c.parts[0].run.topic
	a := abandonment{call: c, parts: slices.Clone(c.parts)}
	c.abandoned = true
	t.vacate(c)
	d.throttle.exit(t, c, limit.Refused, 0, d.engine.now())
	t.workers--
	t.zombies++
	d.zombies++
	for _, p := range c.parts {
		d.close(p.run)
		p.run.call = nil
		if p.run.lost {
			d.settler.drop(p.run)
		}
	}
	d.runner.wakeWorker(t)
	d.engine.tellDrain()
	return a
}

// settleAbandoned settles what an abandoned call was at: as failed, or as
// released if the process is about to stop. The handler may still be at the
// delivery; only what it may not change is read.
func (d *watcher) settleAbandoned(a abandonment) {
	for _, p := range a.parts {
		r := p.run
		d.mu.Lock()
		if r.state == running && r.lost {
			d.settler.drop(r)
		}
		open, now, until := r.state == running, d.engine.now(), r.until
		d.mu.Unlock()
		if !open {
			continue
		}
		was := r.current()
		about := pawl.Message{ID: was.ID, Topic: was.Topic, Headers: a.call.trace}
		rebind(&about, p.bounds)
		del := pawl.Delivery{Message: about, Token: was.Token, Attempt: was.Attempt, Rescues: was.Rescues,
			Deadline: was.Deadline}
		res := entry{outcome: outcome{given: true}}
		d.runner.judge(&res, a.call, &del, errAbandoned, now-a.call.started)
		if res.settlement.Verdict == store.Release {
			res.settlement.After = max(until-now, 0) // no other worker may have it while it still runs here
		}
		d.mu.Lock()
		d.settler.record(r, &res)
		if r.state == running { // an ack, or a retry at the tail, ends one message only
			d.settler.giveBack(r, max(r.until-d.engine.now(), 0), "behind a message that was given up")
		}
		d.mu.Unlock()
	}
}

// abandonedReturned cleans up after an abandoned call whose handler has returned after all. The
// caller holds mu.
func (d *watcher) abandonedReturned(c *call) {
	for _, p := range c.parts {
		d.reopen(p.run)
	}
	c.parts[0].run.topic.zombies--
	d.zombies--
	c.forget()
	signal(d.claimKick)
}

// close keeps a lane from being started in this process. The caller holds mu.
func (d *watcher) close(r *run) {
	if !r.shut {
		r.shut = true
		d.closed[r.lane()]++
	}
}

// reopen ends what close began. The caller holds mu.
func (d *watcher) reopen(r *run) {
	if !r.shut {
		return
	}
	r.shut = false
	if d.closed[r.lane()]--; d.closed[r.lane()] == 0 {
		delete(d.closed, r.lane())
	}
}

// loadEvery is how often the observer is told the load, while there is any.
const loadEvery = time.Second

// observeLoad tells the observer how full the topics are.
func (d *watcher) observeLoad() {
	o := d.cfg.Observer
	if o == nil {
		return
	}
	d.tellLost(o)
	limits, _ := o.(LimitObserver)
	for _, t := range d.Snapshot().Topics {
		o.Load(t.Name, t.Running, t.Waiting, t.Zombies, t.Concurrency)
		for _, l := range t.Limits {
			if limits != nil {
				limits.LimitLoad(l.Name, l.Running, l.Buckets, l.Rate, l.Window, l.Least, l.HeldBack)
			}
		}
	}
}

// tellLost reports to the observer the deliveries whose lease had ended. Losses are
// noticed under mu, so they are reported later, without it.
func (d *watcher) tellLost(o Observer) {
	lost := map[string]int{}
	d.mu.Lock()
	for _, t := range d.topics {
		if t.counts.untold > 0 {
			lost[t.Name], t.counts.untold = t.counts.untold, 0
		}
	}
	d.mu.Unlock()
	for topic, n := range lost {
		o.Refused(topic, "lease_lost", n)
	}
}
