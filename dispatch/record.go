package dispatch

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The functions in this file move a run, or messages of it, out of the hands of
// the workers: towards the store, or out of this process. Their callers hold mu.

// outcome accompanies a settlement until the store has accepted it.
type outcome struct {
	run    *run
	n      int            // messages that it settles: one, or all that are left when it ends the run
	ran    time.Duration  // negative: the handler did not run
	waited time.Duration  // of a first attempt, before it was claimed; otherwise negative
	done   *pawl.Delivery // for events: what the handler acked
	inTx   bool           // acked in a transaction of the handler's: the settlement asks whether that was committed
	given  bool           // its handler was given up, and may still write to the delivery
}

// entry is a settlement and what goes with it.
type entry struct {
	settlement store.Settlement
	outcome
}

// record puts down the settlement of the next message of a run. Unless it is a
// plain ack, or a retry at the tail, it ends the run: the store gives back what is
// left, and so do we.
func (d *settler) record(r *run, res *entry) {
	n := 1
	if !res.inTx && (!r.goesOn(&res.settlement) || res.settlement.Hold > 0) {
		n = len(r.ds) - r.at
	}
	d.detach(r, n)
	d.throttle.owe(r, &res.settlement)
	if p := &r.topic.pace; r.claim == p.looked && res.settlement.Verdict == store.Release {
		p.inVain() // a handler with a queue of its own gives back what it has no room for
	}
	d.unsettled += n
	if res.run, res.n = r, n; r.settling > 0 {
		r.pending = append(r.pending, *res)
		return
	}
	d.put(&res.settlement, res.outcome)
}

// detach takes the next n messages of a run out of the counts.
func (d *settler) detach(r *run, n int) {
	switch r.state {
	case waiting:
		r.topic.unqueue(r) // n is all that is left of it
	case running:
		r.topic.executing -= n
	}
	if r.at += n; r.at == len(r.ds) {
		r.state = over
	}
}

// put adds a settlement to those that are gathered and tells the settler when it is the
// first one, or one that fills it.
func (d *settler) put(st *store.Settlement, o outcome) {
	d.gathered.add(st, o)
	switch len(d.gathered.items) {
	case 1:
		d.gathered.since = d.engine.now()
		signal(d.settleKick)
	case fullCall:
		signal(d.settleKick)
	}
}

// giveUp gives back what is left of a run: it is released, unless its lease has
// run out.
func (d *settler) giveUp(r *run, now time.Duration, reason string) {
	if r.lost || now >= r.until {
		d.drop(r)
		return
	}
	d.giveBack(r, 0, reason)
}

// giveBack releases what is left of a run.
func (d *settler) giveBack(r *run, after time.Duration, reason string) {
	res := entry{outcome: outcome{ran: -1, waited: -1}} // it did not run
	st := &res.settlement
	st.Token, st.ID = r.current().Token, r.current().ID
	released(st, after, reason)
	d.record(r, &res)
}

// drop forgets what is left of a run whose lease is lost.
func (d *settler) drop(r *run) {
	n := len(r.ds) - r.at
	d.detach(r, n)
	r.topic.counts.lost += int64(n)
	r.topic.counts.untold += n
	d.reduce(r, n)
}

// reduce counts n messages of a run as done with.
func (d *settler) reduce(r *run, n int) {
	r.left -= n
	d.held -= n
	if r.left > 0 {
		return
	}
	d.bytes -= r.bytes
	d.claimer.laidDown(r)
	c := r.claim
	if c.live--; c.live > 0 {
		return
	}
	last := len(d.claims) - 1
	d.claims[c.pos] = d.claims[last]
	d.claims[c.pos].pos = c.pos
	d.claims[last] = nil
	d.claims = d.claims[:last]
}
