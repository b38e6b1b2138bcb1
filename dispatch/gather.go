package dispatch

import "time"

// The functions in this file let a batch gather before it is handed out. Their callers
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

// filling tells whether the next batch is not full and may wait for more; it schedules
// another look at the topic for when it no longer may.
func (d *Dispatcher) filling(t *topic, now time.Duration) bool {
	if t.BatchWait == 0 || t.waiting >= t.BatchSize || now >= t.fills {
		return false
	}
	d.openAt(t, now, t.fills-now)
	return true
}

// stale is how long a message of the topic waits here before it is given back.
func (t *topic) stale() time.Duration { return stale + t.BatchWait }
