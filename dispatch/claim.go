package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// claimer asks the store for work where there is room for it.
type claimer struct {
	*engine
	runner    *runner
	settler   *settler
	watcher   *watcher
	solitary  store.Suspected // nil: the store has none
	connected atomic.Bool     // a call of Claim succeeded
	down      downstream
	outage    outage

	// mu of the engine guards what follows.
	parked       int           // claimers that wait for a kick
	kicked       bool          // one of them got one
	claiming     int           // calls of Claim on their way
	promised     bool          // one of them, alone, promises that nothing else is in flight
	askedBytes   int           // by these calls, at most
	askedWeight  int           // the same, of suspects
	failedClaims int           // in a row
	claimAfter   time.Duration // when to try again
	first        int           // of the topics, the one to claim from next
	nextLook     time.Duration // when to ask next whether the topics are empty
	looks        int
	alone        aloneRun
}

// maxUnsettled is how many verdicts may wait for the store before nothing more
// is claimed: a store that settles slowly is not claimed from quickly.
const maxUnsettled = 4 * fullCall

// plan is what the claimer does next: claim, or wait.
type plan struct {
	wants []store.Want
	lease store.Lease
	probe bool
	look  bool          // ask the store which messages wait to be tried alone, and plan again
	full  bool          // ask the store which topics are full, and plan again
	wait  time.Duration // at most; 0: wait for a kick
	done  bool
}

// claimers is how many claims may be in flight. A topic has a second one only while one
// claim does not bring all that the store has and workers are waiting.
const claimers = 2

// claimLoop claims, as long as there is room for more.
func (d *claimer) claimLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.mu.Lock()
		p := d.plan()
		d.kicked = false
		if len(p.wants) == 0 && !p.look && !p.full {
			d.parked++
		}
		d.mu.Unlock()
		switch {
		case p.done:
			return
		case p.look:
			d.look()
			continue
		case p.full:
			d.askFull()
			continue
		case len(p.wants) > 0:
			d.claim(p)
			continue
		case d.cfg.UntilEmpty && d.isEmpty():
			d.engine.endRun(nil)
			return
		}
		timer.Reset(p.wait)
		select {
		case <-d.claimKick:
		case <-timer.C:
		case <-d.stop:
			return
		}
		d.mu.Lock()
		d.parked--
		d.mu.Unlock()
	}
}

// plan decides what to claim now, if anything. The caller holds mu.
func (d *claimer) plan() plan {
	now := d.engine.now()
	if d.phase != working {
		return plan{done: true}
	}
	if now < d.claimAfter {
		return plan{wait: d.claimAfter - now}
	}
	if d.shouldLook(now) {
		return plan{look: true}
	}
	if p, ok := d.makeWay(now); ok {
		return p
	}
	free := d.cfg.MaxBytes - d.bytes - d.askedBytes
	if d.unsettled >= maxUnsettled || free <= 0 && (d.held > 0 || d.claiming > 0) {
		return plan{wait: time.Hour}
	}
	p, next := plan{}, now+time.Hour
	first := d.first
	for i := range d.topics {
		i = (first + i) % len(d.topics)
		t := d.topics[i]
		t.forgive(now, -1)
		if t.unclaimable() > 0 {
			next = min(next, t.owes[0].until)
		}
		room, due := t.room(), t.pace.due
		if t.asked > 0 && (t.pace.pause > 0 || room < maxClaim/2) {
			continue // the last claim brought less than it asked for, or little is wanted: one at a time will do
		}
		probe := room == 0
		if probe {
			room, due = t.probeSize(), t.probeDue(d.engine.pollMax(t))
		}
		if len(t.Limits) > 0 && t.space() > 0 {
			next = min(next, now+t.narrow(now))
		}
		if now < due {
			next = min(next, due)
			continue
		}
		if len(t.targets) > 0 && now >= d.down.due {
			return plan{full: true}
		}
		if t.fullTarget() != "" {
			next = min(next, d.down.due)
			continue
		}
		if p.lease.For != 0 && p.lease.For != t.Lease {
			d.first = i // another length of lease is another call: the next one
			continue
		}
		p.lease.For, p.probe = t.Lease, p.probe || probe
		p.wants = append(p.wants, store.Want{Topic: t.Name, Limit: room, Run: t.runLength()})
	}
	p.lease.Owner, p.lease.Alone = d.cfg.Owner, d.empty() && d.alone.quiet
	p.lease.Suspects = max(store.MaxSuspects-d.weight-d.askedWeight, 0)
	p.wait = max(next-now, 0)
	for i := range p.wants {
		w := &p.wants[i]
		w.Limit = min(w.Limit, store.MaxBatch/len(p.wants))
		w.MaxBytes = max(free/len(p.wants)/claimers, 1)
		d.byName[w.Topic].pace.woken = false
	}
	if len(p.wants) > 0 {
		d.asking(&p, 1)
	}
	return p
}

// asking counts a claim that is sent, or that is back (-1). The caller holds mu.
func (d *claimer) asking(p *plan, sign int) {
	d.claiming += sign
	d.promised = p.lease.Alone && sign > 0
	d.askedWeight += sign * p.lease.Suspects
	for _, w := range p.wants {
		d.byName[w.Topic].asked += sign * w.Limit
		d.askedBytes += sign * w.MaxBytes
	}
}

// claim claims, and admits what comes.
func (d *claimer) claim(p plan) {
	ctx, cancel := context.WithTimeout(d.claimIO, max(p.lease.For*2/3, time.Second))
	began, sent := time.Now(), d.engine.now()
	ds, err := d.store.Claim(ctx, p.wants, p.lease)
	cancel()
	d.called("claim", began, len(ds), err)
	if err == nil {
		err = d.check(ds)
	}
	if err != nil {
		if d.endsRun(err) {
			d.engine.endRun(err)
		}
		d.mu.Lock()
		d.asking(&p, -1)
		d.claimAfter = d.engine.now() + d.outage.backoff(d.failedClaims, d.cfg.Rand)
		d.failedClaims++
		d.mu.Unlock()
		signal(d.drainKick)
		return
	}
	d.connected.Store(true)
	d.admit(d.runner.makeRuns(ds, sent, p.lease.For), p)
	if o := d.cfg.Observer; o != nil {
		observeClaim(o, p, ds)
	}
}

// check verifies the promises of the store that everything here relies on.
func (d *claimer) check(ds []pawl.Delivery) error {
	for i := range ds {
		if d.byName[ds[i].Topic] == nil {
			return &store.Error{Op: "claim", Code: store.ErrInvalid,
				Err: fmt.Errorf("the store returned a message of topic %q, which was not asked for", ds[i].Topic)}
		}
	}
	return nil
}

// endsRun reports whether an error of the store ends Run: one that repetition does not
// cure, and at the start also one that needs a person's attention.
func (d *claimer) endsRun(err error) bool {
	is := func(code error) bool { return errors.Is(err, code) }
	return slices.ContainsFunc([]error{store.ErrClosed, store.ErrInvalid, store.ErrUnsupported}, is) ||
		!d.connected.Load() && slices.ContainsFunc([]error{store.ErrDenied, store.ErrSchema, store.ErrConflict}, is)
}

// admit takes in what a claim brought.
func (d *claimer) admit(c *claim, p plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asking(&p, -1)
	d.failedClaims = 0
	now := d.engine.now()
	if len(c.runs) > 0 {
		d.enlist(c)
		c.measure(p)
	}
	for i := range c.runs {
		r := &c.runs[i]
		d.held += r.left
		d.bytes += r.bytes
		d.carries(r, p.lease.Alone, now)
		switch {
		case d.phase != working:
			d.settler.giveUp(r, now, "draining")
		case d.closed[r.lane()] > 0:
			d.settler.giveBack(r, closedFor, "its lane is closed here until a handler returns")
		default:
			r.topic.push(r)
		}
	}
	for _, w := range p.wants {
		d.byName[w.Topic].forgive(now, c.sent)
	}
	d.came(len(c.runs), p.lease.Alone, now)
	d.pace(c, p, now)
	for _, w := range p.wants {
		d.runner.wakeWorker(d.byName[w.Topic])
	}
	d.engine.tellDrain()
}

// measure says of each run whether its lane may have more than it brought.
func (c *claim) measure(p plan) {
	for _, w := range p.wants {
		n := 0
		for i := range c.runs {
			if r := &c.runs[i]; r.topic.Name == w.Topic {
				r.topic.low.see(r.current().Priority)
				r.topic.perRun += (float64(len(r.ds)) - r.topic.perRun) / 16
				n += len(r.ds)
			}
		}
		for i := range c.runs {
			if r := &c.runs[i]; r.topic.Name == w.Topic {
				r.full = n >= w.Limit || len(r.ds) >= w.Run
			}
		}
	}
}

// closedFor is how long a lane stays closed so that another process can take it.
const closedFor = time.Second

// enlist registers a claim with the heartbeat and the watcher.
func (d *claimer) enlist(c *claim) {
	c.pos = len(d.claims)
	d.claims = append(d.claims, c)
	if c.beat < d.watcher.beatAt {
		d.watcher.beatAt = c.beat
		signal(d.beatKick)
	}
	if c.check < d.watcher.watchAt {
		d.watcher.watchAt = c.check
		signal(d.watchKick)
	}
}

// pace sets when each topic of a claim is claimed from next, and gives back
// what came beyond the room for it.
func (d *claimer) pace(c *claim, p plan, now time.Duration) {
	got, size := map[*topic]int{}, map[*topic]int{}
	for i := range c.runs {
		got[c.runs[i].topic] += len(c.runs[i].ds)
		size[c.runs[i].topic] += c.runs[i].bytes
	}
	for _, w := range p.wants {
		t := d.byName[w.Topic]
		n := got[t]
		if n > 0 && size[t] >= w.MaxBytes/2 {
			n = w.Limit // the store may have more, whatever this claim brought
		}
		t.pace.claimed(now, w.Limit, n, d.cfg.PollMin, d.engine.pollMax(t))
		if p.probe {
			d.probed(c, t, now)
		}
	}
}

// wakeIfRoom wakes the claimer, if it waits and the topic could take more. The
// caller holds mu.
func (d *claimer) wakeIfRoom(t *topic, now time.Duration) {
	if d.parked > 0 && !d.kicked && now >= t.pace.due && t.room() > 0 {
		d.kicked = true
		signal(d.claimKick)
	}
}

func observeClaim(o Observer, p plan, ds []pawl.Delivery) {
	for _, w := range p.wants {
		n := 0
		var waited []time.Duration
		for i := range ds {
			if ds[i].Topic != w.Topic {
				continue
			}
			n++
			if ds[i].Attempt == 1 && ds[i].Rescues == 0 {
				waited = append(waited, ds[i].Waited)
			}
		}
		if n > 0 {
			o.Claimed(w.Topic, n, waited)
		}
	}
}
