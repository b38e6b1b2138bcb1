package dispatch

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// A lane has its next message only when the store has taken the verdict about the one before.
// In these milliseconds its slot is owed to it: something of a lower priority would take it
// otherwise, again and again, and keep it for as long as a handler runs. The same goes for a
// message that waited too long here and is given back: a claim brings it again.

// owed is a slot that the next message of a lane, or one that is given back, may take.
type owed struct {
	run     *run // the one before, or that is given back
	prio    int
	since   time.Duration
	until   time.Duration // then it is no longer kept
	settled time.Duration // when the store took the verdict; never: it has not yet
}

// A slot is kept for a settlement and a claim of a store that is slow: for owedFor, or for longer where handlers take
// long.
const (
	owedFor     = 50 * time.Millisecond
	owedLongest = time.Second
)

// A slot is kept if handlers take so many times as long as it is kept on average: it costs a
// little then, and saves much.
const worthKeeping = 4

// firstGap is how long a slot is taken to be kept, before that was measured.
const firstGap = 5 * time.Millisecond

// lowWindow is after how many runs the lowest priority of a topic is forgotten.
const lowWindow = 1000

// lowest is the lowest priority that messages of a topic had of late. At first it is 0, which
// is what a message has that states none.
type lowest struct {
	prio, next, seen int
}

func (l *lowest) see(prio int) {
	l.prio = min(l.prio, prio)
	if l.seen == 0 || prio < l.next {
		l.next = prio
	}
	if l.seen++; l.seen == lowWindow {
		l.prio, l.seen = l.next, 0
	}
}

// owe keeps the slot of a run whose last message was acked, if its lane may have more, and
// something of a lower priority could take it. The caller holds mu.
func (d *throttle) owe(r *run, st *store.Settlement) {
	t, last := r.topic, &r.ds[len(r.ds)-1]
	ended := r.state == over && st.Verdict == store.Ack && st.Hold == 0
	reserved := r.critical && t.criticalRunning < t.Reserved // nothing of a lower priority may take it
	if !ended || !r.full || !r.keyed || reserved || last.Priority <= t.low.prio || d.phase != working {
		return
	}
	if t.measured && t.took < worthKeeping*t.gap {
		t.gap -= t.gap / 16 // the store may have become quicker: it is tried again after a while
		return
	}
	d.keepSlot(r, last.Priority)
}

// keepSlot keeps a slot from lower priorities than the given one, until a claim is back that was
// sent after the last settlement of the run. The caller holds mu.
func (d *throttle) keepSlot(r *run, prio int) {
	t, now, wait := r.topic, d.engine.now(), owedFor
	if prio <= t.low.prio || len(t.owes) >= t.Concurrency*t.batch() || d.phase != working {
		return
	}
	if t.measured {
		wait = min(max(owedFor, t.took/worthKeeping), owedLongest)
	}
	t.owes = append(t.owes, owed{r, prio, now, now + wait, never})
	d.openAt(t, now, wait)
}

// forgive drops what is owed no longer: it took too long, or the claim that could have brought the
// next message, sent then, is back. The caller holds mu.
func (t *topic) forgive(now, sent time.Duration) {
	if len(t.owes) == 0 {
		return
	}
	t.owes = slices.DeleteFunc(t.owes, func(o owed) bool {
		done := now >= o.until || o.settled <= sent
		if done {
			t.gap += (now - o.since - t.gap) / 16
		}
		return done
	})
}

// settledOwed notes that the store took, or refused, the verdict that the lane of a run waits for.
func (t *topic) settledOwed(r *run, now time.Duration, refused bool) {
	for i := range t.owes {
		if t.owes[i].run == r {
			if t.owes[i].settled = now; refused {
				t.owes = slices.Delete(t.owes, i, i+1)
			}
			return
		}
	}
}

// owedBefore is how many slots are owed to better lanes than that of a run.
func (t *topic) owedBefore(r *run) (n int) {
	for i := range t.owes {
		if o := &t.owes[i]; o.prio > r.current().Priority && o.run.rank < r.rank {
			n++
		}
	}
	return t.slotsOf(n)
}

// slotsOf is how many slots so many lanes need.
func (t *topic) slotsOf(lanes int) int { return (lanes + t.batch() - 1) / t.batch() }

// unclaimable is how many lanes are owed a slot whose next message no claim brings yet.
func (t *topic) unclaimable() (n int) {
	for i := range t.owes {
		if t.owes[i].settled == never {
			n++
		}
	}
	return n
}
