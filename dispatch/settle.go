package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// settler ends deliveries in the store.
type settler struct {
	*engine
	events   *events
	throttle *throttle
	runner   *runner
	claimer  *claimer
	watcher  *watcher

	// mu of the engine guards what follows.
	gathered settlements
	settling int // calls of Settle on their way, and about to be
}

// settleLoop hands verdicts to the store: at once when no other is about to
// come, many at a time otherwise.
func (d *settler) settleLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.mu.Lock()
		wait := d.settleWait(d.engine.now())
		var batch settlements
		if wait == 0 {
			batch = d.takeGathered()
		}
		d.mu.Unlock()
		if wait == 0 {
			d.wg.Go(func() { d.settle(batch) })
			continue
		}
		timer.Reset(wait)
		select {
		case <-d.settleKick:
		case <-timer.C:
		case <-d.stop:
			return
		}
	}
}

// settleWait is how long what is gathered waits for more; 0 is not at all. The caller
// holds mu.
func (d *settler) settleWait(now time.Duration) time.Duration {
	n, age := len(d.gathered.items), now-d.gathered.since
	switch {
	case n == 0 || d.settling >= settlers:
		return time.Hour
	case n >= fullCall || d.phase != working:
		return 0
	case d.settling > 0:
		return max(awaitCall-age, 0)
	case d.coming():
		return max(linger-age, 0)
	default:
		return 0
	}
}

// coming reports whether more verdicts are about to come. The caller holds mu.
func (d *settler) coming() bool {
	for _, t := range d.topics {
		if t.gathers() && t.waiting+t.executing > 0 {
			return true
		}
	}
	return false
}

// takeGathered takes a batch out of what is gathered. What is left of a run that is
// in the batch must wait for it. The caller holds mu.
func (d *settler) takeGathered() settlements {
	batch := d.gathered.take()
	d.settling++
	for i := range batch.outs {
		batch.outs[i].run.settling++
	}
	if len(d.gathered.items) == 0 {
		return batch
	}
	rest := d.gathered // its items are not shared: they move up in place
	d.gathered = settlements{items: rest.items[:0], outs: rest.outs[:0], since: rest.since}
	for i := range rest.items {
		if r := rest.outs[i].run; r.settling > 0 {
			r.pending = append(r.pending, entry{rest.items[i], rest.outs[i]})
		} else {
			d.gathered.add(&rest.items[i], rest.outs[i])
		}
	}
	clear(rest.items[len(d.gathered.items):])
	clear(rest.outs[len(d.gathered.outs):])
	return batch
}

// settle hands a batch to the store, and repeats it under its id until it is accepted,
// or certainly too late.
func (d *settler) settle(batch settlements) {
	b := store.NewBatch(batch.items...)
	refused, err := d.settleUntilTaken(b, batch.outs)
	if err != nil && len(b.Items) > 1 && (errors.Is(err, store.ErrTooLarge) || errors.Is(err, store.ErrInvalid)) {
		// One item spoils the call: find it.
		half := len(b.Items) / 2
		d.mu.Lock()
		d.settling++
		d.mu.Unlock()
		d.settle(settlements{items: batch.items[:half], outs: batch.outs[:half]})
		d.settle(settlements{items: batch.items[half:], outs: batch.outs[half:]})
		return
	}
	if err != nil {
		refused = refused[:0]
		for i := range b.Items {
			refused = append(refused, store.Refusal{Index: i, Err: err})
		}
	}
	d.settled(batch, d.failUnfit(batch, refused))
}

// settleUntilTaken repeats a call of Settle while the store is not reachable.
func (d *settler) settleUntilTaken(b store.Batch[store.Settlement], outs []outcome) ([]store.Refusal, error) {
	for try := 0; ; try++ {
		end := d.leaseEnd(outs)
		ctx, cancel := context.WithTimeout(d.io, max(min(end-d.engine.now(), settleTimeout), time.Second))
		began := time.Now()
		refused, err := d.store.Settle(ctx, b)
		cancel()
		d.claimer.called("settle", began, len(b.Items), err)
		if err == nil || d.io.Err() != nil || errors.Is(err, store.ErrClosed) ||
			errors.Is(err, store.ErrTooLarge) || errors.Is(err, store.ErrInvalid) {
			return refused, err
		}
		if d.engine.now() >= d.leaseEnd(outs) {
			return nil, pawl.ErrLeaseLost
		}
		if !d.engine.pause(d.io, d.claimer.outage.backoff(try, d.cfg.Rand)) {
			return nil, err
		}
	}
}

// settleTimeout bounds one try. Its outcome is unknown then; the batch id makes
// the repetition safe.
const settleTimeout = 15 * time.Second

// leaseEnd is when the last lease of a batch has surely ended.
func (d *settler) leaseEnd(outs []outcome) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	end := time.Duration(0)
	for i := range outs {
		end = max(end, outs[i].run.until+2*leaseMargin(outs[i].run.claim.lease))
	}
	return end
}

// settled records what the store did with a batch.
func (d *settler) settled(batch settlements, refused []store.Refusal) {
	refused = slices.DeleteFunc(refused, func(r store.Refusal) bool {
		gone := batch.outs[r.Index].inTx && errors.Is(r.Err, pawl.ErrLeaseLost)
		if gone {
			batch.items[r.Index] = store.Settlement{Token: batch.items[r.Index].Token, ID: batch.items[r.Index].ID,
				Verdict: store.Ack}
		}
		return gone
	})
	bad := map[int]error{}
	for _, r := range refused {
		bad[r.Index] = r.Err
	}
	d.mu.Lock()
	now := d.engine.now()
	sums := sums{}
	for i := range batch.outs {
		o, st := &batch.outs[i], &batch.items[i]
		o.run.settling--
		err := bad[i]
		if len(o.run.topic.owes) > 0 {
			o.run.topic.settledOwed(o.run, now, err != nil)
		}
		if err != nil {
			o.run.topic.counts.refuse(err, o.n)
		} else {
			d.taken(o, st, now)
		}
		if d.cfg.Observer != nil {
			sums.add(o, st, err, now)
		}
	}
	for i := range batch.outs {
		d.unsettled -= batch.outs[i].n
		if batch.outs[i].run.settling == 0 {
			d.continueRun(batch.outs[i].run)
		}
		d.reduce(batch.outs[i].run, batch.outs[i].n)
	}
	d.settling--
	d.engine.tellDrain()
	parked := d.claimer.parked
	d.mu.Unlock()
	signal(d.settleKick)
	if parked > 0 {
		signal(d.claimKick)
	}
	if d.cfg.Observer != nil {
		sums.report(d.cfg.Observer)
	}
	d.events.completed(batch, bad)
	d.events.logRefused(batch, refused)
}

// continueRun lets the verdicts go that waited for others of their run. The
// caller holds mu.
func (d *settler) continueRun(r *run) {
	for i := range r.pending {
		d.put(&r.pending[i].settlement, r.pending[i].outcome)
	}
	r.pending = nil
}

// taken counts a settlement that the store took, and wakes those topics of ours
// for which something became claimable by it. The caller holds mu.
func (d *settler) taken(o *outcome, st *store.Settlement, now time.Duration) {
	t := o.run.topic
	t.counts.count(st, o, now)
	for i := range st.Emit {
		if to := d.byName[st.Emit[i].Topic]; to != nil {
			to.pace.wake(now)
		}
	}
	closed := max(st.After, st.Hold)
	if o.run.tail && st.Verdict == store.Retry && st.After > 0 {
		t.pace.dueAt(now, now+st.After)
		closed = st.Hold
	}
	switch {
	case closed > 0:
		t.pace.dueAt(now, now+closed)
	case o.run.surplus: // what is there is known
	case !o.run.goesOn(st) || o.run.keyed && o.run.at == len(o.run.ds):
		t.pace.wake(now) // there may be more in its lane
	}
}
