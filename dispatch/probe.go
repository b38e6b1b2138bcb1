package dispatch

import (
	"slices"
	"time"
)

// While as much is held as should be, something of a better rank may be
// appended. A probe claims a little more than there is room for, and gives back
// the worst of what waits: so that what is started next is the best of the
// store, and so that reserved slots find their messages.

// probeDue is when to probe next: soon after a wake-up, if there is something
// that what is new could overtake, or a slot reserved for it; seldom without
// one, for reserved slots only.
func (t *topic) probeDue(seldom time.Duration) time.Duration {
	reserved := t.reservedFree() > 0 && !t.barred()
	switch {
	case t.pace.woken && (t.waitingRuns > 0 || reserved || t.Room != nil):
		return t.pace.probed + max(t.pace.gap, probeGap)
	case reserved:
		return t.pace.probed + seldom
	default:
		return never
	}
}

// barred reports whether a limit lets nothing begin while nothing waits here: a message claimed now could
// only be held, out of reach of processes that may begin it. When the limit opens, a claim brings the best.
func (t *topic) barred() bool {
	allowed, _, _ := t.allowed()
	return allowed == 0 && t.waitingRuns == 0
}

func (t *topic) reservedFree() int {
	return min(max(t.Reserved-t.criticalRunning, 0), t.Concurrency-t.running)
}

func (t *topic) probeSize() int { return max(t.reservedFree(), 1) }

// probed gives back what a probe brought too much, worst rank first. The caller
// holds mu.
func (d *claimer) probed(c *claim, t *topic, now time.Duration) {
	t.pace.probed, t.pace.before, t.pace.looked = now, t.pace.gap, c
	limit := max(t.ahead(), 1) + t.freeSlots()*t.batch()
	if len(t.Limits) > 0 {
		allowed, _, _ := t.allowed()
		limit = min(limit, max(allowed*t.batch(), 1))
	}
	vain := !slices.ContainsFunc(c.runs, func(r run) bool { return r.topic == t }) // the probe brought nothing
	for t.waiting > limit {
		r := t.worst()
		if r == nil {
			break
		}
		r.surplus = true
		vain = vain || r.claim == c
		d.settler.giveUp(r, now, "released in favour of a better rank")
	}
	if t.pace.gap = probeGap; vain {
		t.pace.inVain()
	}
}

// inVain has the next look wait for longer: what was given back of the last one may be what wakes us.
func (p *pace) inVain() { p.gap = min(max(2*p.before, probeGap), vainGap) }
