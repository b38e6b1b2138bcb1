package dispatch

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/internal/limit"
	"github.com/pawl-dev/pawl/store"
)

// throttle says what may begin now.
type throttle struct {
	*engine
	runner      *runner
	settler     *settler
	claimer     *claimer
	watcher     *watcher
	limitsMoved atomic.Bool // a limit shared with others may allow more
	kept        uint64      // how often a limit held a topic back; mu of the engine guards it
}

// The functions in this file ask the limiters of a topic. Their callers hold mu.

const (
	// soon is how far ahead is claimed for what a rate will allow.
	soon = 100 * time.Millisecond
	// heldFor is how long a message waits here for its limit; what would wait
	// longer is released until then.
	heldFor = 200 * time.Millisecond
	// maxHeld is how many runs of a topic wait here for their limits.
	maxHeld = 64
)

// heldRun waits for a limit by a key.
type heldRun struct {
	run *run
	by  *Limiter
	key string
	due time.Duration // when to ask again; never: when another call has ended
}

// enter gives a run a slot, if its limits allow that. Otherwise the run is back
// in its queue, held back or given back.
func (d *throttle) enter(t *topic, r *run, now time.Duration) bool {
	by, wait, ok := t.pass(r)
	if ok {
		t.occupy(r)
		return true
	}
	t.executing -= len(r.ds) - r.at
	if !r.limited {
		r.limited = true
		by.held.Add(1)
	}
	if by.by == nil {
		t.limitedBy, t.limitedAt = by, now
		t.push(r) // nothing of this topic may begin: it keeps its place
		d.openAt(t, now, wait)
		return false
	}
	r.state = aside
	h := heldRun{run: r, by: by, key: t.keys(r)[slices.Index(t.Limits, by)], due: never}
	if wait > 0 {
		h.due = now + wait
	}
	if wait > heldFor || len(t.held) >= maxHeld {
		d.sendAway(h, wait)
		return false
	}
	t.held = append(t.held, h)
	d.openAt(t, now, wait)
	return false
}

// pass asks each limiter for the next call of a run; all allow it, or none has
// counted it.
func (t *topic) pass(r *run) (by *Limiter, wait time.Duration, ok bool) {
	for i, l := range t.Limits {
		if first := l.before(t); first != nil {
			wait, ok = anotherTurn, false
			t.of.wakeWorker(first)
		} else {
			wait, ok = l.admit(t.keys(r)[i])
		}
		if ok {
			continue
		}
		for n, earlier := range t.Limits[:i] {
			earlier.undo(t.keys(r)[n])
		}
		for _, other := range t.Limits {
			if other != l {
				other.leave(t) // it is not for them to wait for it
			}
		}
		if l.by == nil {
			l.keep(t)
			if t.keptSince == 0 {
				t.of.kept++
				t.keptSince = t.of.kept
			}
		}
		return l, wait, false
	}
	t.keptSince = 0
	for _, l := range t.Limits {
		l.leave(t)
	}
	return nil, 0, true
}

// anotherTurn is how soon to look again whether a topic is before this one.
const anotherTurn = 5 * time.Millisecond

// keys are the buckets of the next call of a run, one for each limiter. Each is asked once: one that answers otherwise
// at the end of the call would keep its place for ever.
func (t *topic) keys(r *run) []string {
	if len(t.Limits) == 0 || r.keysOf == r.at+1 {
		return r.keys
	}
	r.keys, r.keysOf = make([]string, len(t.Limits)), r.at+1
	for i, l := range t.Limits {
		if l.by != nil { // it is not there for a batch
			own := *r.current() // it may write to it
			r.keys[i] = l.key(&own)
		}
	}
	return r.keys
}

// exit tells the limiters that a call has ended, and lets what waited for that
// begin.
func (d *throttle) exit(t *topic, c *call, o limit.Outcome, after, now time.Duration) {
	if len(t.Limits) == 0 {
		return
	}
	for i, l := range t.Limits {
		l.ended(c.keys[i], now-c.started, o, after)
		l.notifyChange(t.of)
		d.recall(t, func(h *heldRun) bool { return h.by == l && h.key == c.keys[i] })
	}
	d.limitsOpen(t, now)
}

// limitsOpen lets what waits for the end of a call ask again, in all topics but one.
func (d *throttle) limitsOpen(but *topic, now time.Duration) {
	for _, t := range d.topics {
		if t != but && len(t.Limits) > 0 {
			d.recall(t, func(h *heldRun) bool { return h.due == never })
			d.runner.wakeWorker(t)
			d.claimer.wakeIfRoom(t, now)
		}
	}
}

// outcome is what a call says about the downstream: of a batch, the worst that
// one of its deliveries says.
func (c *call) outcome(err error, verdicts []error) (o limit.Outcome, after time.Duration) {
	cause := c.why()
	if o, after = outcomeOf(err, cause); err != nil {
		return o, after
	}
	for _, v := range verdicts {
		if of, wait := outcomeOf(v, cause); of == limit.Refused {
			o, after = of, max(after, wait)
		}
	}
	return o, after
}

// recall lets held runs ask again.
func (d *throttle) recall(t *topic, which func(*heldRun) bool) {
	if len(t.held) == 0 {
		return
	}
	t.held = slices.DeleteFunc(t.held, func(h heldRun) bool {
		if h.run.state == aside && !which(&h) {
			return false
		}
		if h.run.state == aside {
			t.push(h.run)
		}
		return true
	})
}

// sendAway releases a run until it is its turn.
func (d *throttle) sendAway(h heldRun, wait time.Duration) {
	after := h.by.inner.Away(h.key, h.run.current().ID, wait)
	d.settler.giveBack(h.run, min(after, pawl.MaxDelay), store.LimitedBy(h.by.name))
}

// openAt sees to it that a topic is looked at again in time.
func (d *throttle) openAt(t *topic, now, wait time.Duration) {
	if wait <= 0 {
		return // a call that ends does it
	}
	t.opens = min(t.opens, now+wait)
	if t.opens < d.watcher.watchAt {
		d.watcher.watchAt = t.opens
		signal(d.watchKick)
	}
}

// open looks after topics whose limits may have opened or whose batches have waited
// for long enough, and after what has waited for its limit for too long. It returns when to do so next.
func (d *throttle) open(now time.Duration) (next time.Duration) {
	next = never
	for _, t := range d.topics {
		if t.forgive(now, -1); len(t.Limits) == 0 && t.BatchWait == 0 && t.opens == never {
			continue
		}
		if now >= t.opens {
			t.opens = never
			d.recall(t, func(h *heldRun) bool { return now >= h.due })
			d.runner.wakeWorker(t)
			d.claimer.wakeIfRoom(t, now)
		}
		for _, h := range slices.Clone(t.held) {
			if last := h.run.claim.sent + stale; now >= last && h.run.state == aside {
				d.sendAway(h, 0)
			} else {
				t.opens = min(t.opens, h.due)
				next = min(next, last)
			}
		}
		t.held = slices.DeleteFunc(t.held, func(h heldRun) bool { return h.run.state != aside })
		next = min(next, t.opens)
	}
	return next
}

// release gives back what is held.
func (t *topic) release(d *Dispatcher, now time.Duration, reason string) {
	for _, h := range t.held {
		if h.run.state == aside {
			d.giveUp(h.run, now, reason)
		}
	}
	t.held = nil
}

// narrow takes note of a limit that lets nothing more be claimed, and returns when
// to look again; for long, if a call has to end first.
func (t *topic) narrow(now time.Duration) time.Duration {
	n, by, wait := t.allowed()
	if n*t.batch() <= t.waiting+t.asked {
		t.limitedBy, t.limitedAt = by, now
	}
	if wait > 0 {
		return wait
	}
	return time.Hour
}

// limited names the limiter that lately kept something of a topic from beginning.
func (t *topic) limited(now time.Duration) string {
	if t.limitedBy == nil || now-t.limitedAt > lately {
		return ""
	}
	return t.limitedBy.name
}

// lately is for how long a topic counts as limited.
const lately = 10 * time.Second

// allowed is how many calls may begin soon, as far as a limit for all says; and
// if none may, which limit it is and when to ask again: 0 is when a call has ended.
func (t *topic) allowed() (n int, by *Limiter, wait time.Duration) {
	n = MaxSlots
	for _, l := range t.Limits {
		if l.by != nil {
			continue
		}
		room, later := l.room()
		if wait = max(wait, later); room < n {
			n, by = room, l
		}
	}
	return n, by, wait
}
