package limit

import (
	"cmp"
	"maps"
	"math"
	"time"
)

// bucket is the state of one key.
type bucket struct {
	inFlight int
	// next is when the next call may begin by the rate: the theoretical arrival
	// time of the generic cell rate algorithm (ITU-T I.371), less the burst.
	next time.Time
	// later is until when those that were sent away may come back one by one.
	later time.Time
	// turns is when each of those may; some that have passed are among them, up to tidyAt in all.
	turns  map[string]time.Time
	tidyAt int
	closed time.Time // nothing begins before that: the downstream said so
	turned time.Time // the same, as the last one that was admitted set it

	window  Window
	credit  float64       // seconds of calls that the window still allows beyond its whole part
	seen    time.Time     // when credit was reckoned
	mean    time.Duration // of a call, moving
	inRow   int           // refusals with nothing taken in between
	refused time.Time     // when that was last
	left    int           // what was under way after the last of them
	done    int           // of all calls, since then, those that ended and were not refused

	kept   bool      // the last call that asked could not begin
	keptAt time.Time // when that last was
}

// admit says whether a call may begin; otherwise wait is how long until it is
// worth asking again, and 0 when that is once a call has ended.
func (b *bucket) admit(c *Config, now time.Time) (wait time.Duration, ok bool) {
	if now.Before(b.closed) {
		return b.closed.Sub(now), false
	}
	if c.Concurrency > 0 && b.inFlight >= c.Concurrency {
		return 0, false
	}
	if wait, ok := b.fits(now); !ok {
		return wait, false
	}
	if c.Rate > 0 {
		if early := b.next.Sub(now); early > 0 {
			return early, false
		}
		b.next = Later(b.next, now.Add(-c.burst())).Add(c.interval())
	}
	b.inFlight++
	if b.drains() && b.inRow > 0 { // one by one, until one is served that began after the refusal
		b.turned = now.Add(b.turnaround())
		b.closed = b.turned
	}
	return 0, true
}

// keeping reports whether calls wait for the bucket, as far as one can tell: what is sent
// away asks again, and what waits for a call to end does so while there is one.
func (b *bucket) keeping(now time.Time) bool {
	return b.kept && b.inFlight > 0 || !b.keptAt.IsZero() && now.Sub(b.keptAt) < 2*maxAway
}

// undo reverts an admit, and everything that it set.
func (b *bucket) undo(c *Config) {
	b.inFlight--
	if c.Rate > 0 {
		b.next = b.next.Add(-c.interval())
	}
	if b.closed.Equal(b.turned) {
		b.closed = time.Time{}
	}
}

// turnaround is how long it takes on average until a call ends, and the longest pause at most.
func (b *bucket) turnaround() time.Duration {
	size, longest := b.window.Size(), b.longest()
	if float64(b.mean) >= size*float64(longest) { // and where nothing may begin
		return longest
	}
	return time.Duration(float64(b.mean) / size)
}

// longest is the longest pause.
func (b *bucket) longest() time.Duration { return max(b.mean, time.Millisecond) / 4 }

// fits says whether the window has a place. Of a size of 2.5, the third place is
// there for half of the time.
func (b *bucket) fits(now time.Time) (wait time.Duration, ok bool) {
	if b.window == nil {
		return 0, true
	}
	size := b.window.Size()
	b.reckon(size, now)
	spare := size - float64(b.inFlight)
	switch {
	case spare >= 1 || spare > 0 && b.credit >= 0:
		return 0, true
	case spare > 0:
		return max(time.Duration(-b.credit/spare*float64(time.Second)), time.Millisecond), false
	default:
		return 0, false
	}
}

// reckon brings the credit up to date.
func (b *bucket) reckon(size float64, now time.Time) {
	if !b.seen.IsZero() {
		bound := max(b.mean, time.Millisecond).Seconds()
		b.credit += now.Sub(b.seen).Seconds() * (size - float64(b.inFlight))
		b.credit = min(max(b.credit, -bound), bound/4)
	}
	b.seen = now
}

// ended gives a place back.
func (b *bucket) ended(now time.Time, took time.Duration, o Outcome) {
	if b.window != nil {
		b.reckon(b.window.Size(), now)
	}
	b.inFlight--
	if began := now.Add(-took); o == Refused {
		b.refuse(now, began)
	} else {
		b.done++
		b.mean = cmp.Or(b.mean, took)
		b.mean += (took - b.mean) / 8
		if began.After(b.refused) {
			b.inRow = 0
		}
	}
	if b.window == nil {
		return
	}
	used, size := float64(b.inFlight+1), b.window.Size()
	b.window.Ended(Call{
		Began: now.Add(-took), Ended: now, InFlight: b.inFlight, Full: used >= 0.8*size || used > size-1,
		InRow: b.inRow, Outcome: o,
	})
}

// refuse counts a refusal. What began before the last one says nothing more: it was
// refused with it.
//
// With a window it lets nothing begin for a moment: as long as it takes until
// another call would have ended, and twice that by each refusal that follows with
// nothing taken in between. So what has become too much drains, and few calls are
// wasted on finding out how far.
func (b *bucket) refuse(now, began time.Time) {
	if !began.After(b.refused) {
		return
	}
	if taken := b.inFlight + b.done - b.left; taken > 0 {
		b.inRow = 0
	}
	b.inRow++
	b.left, b.done, b.refused = b.inFlight, 0, now
	if !b.drains() {
		return
	}
	length := float64(b.turnaround()) * math.Exp2(float64(b.inRow-1))
	b.closed = Later(b.closed, now.Add(time.Duration(min(length, float64(b.longest())))))
}

// drains reports whether a refusal lets nothing begin for a moment. A window that is
// cut by much at once drains by itself.
func (b *bucket) drains() bool {
	_, plain := b.window.(*Steps)
	return b.window != nil && !plain
}

// room is how many calls may begin within a while, by the rate and by the bound on
// concurrent calls, now and when the next few have ended.
//
// If it is none, wait says when that ends by itself; 0 is when a call has ended.
func (b *bucket) room(c *Config, now time.Time, while time.Duration) (n int, wait time.Duration) {
	n = maxRoom
	if c.Concurrency > 0 {
		n = min(n, c.Concurrency-b.inFlight+b.ending())
	}
	if b.window != nil {
		spare := b.window.Size() - float64(b.inFlight)
		whole := int(spare)
		if spare > float64(whole) && whole >= 0 {
			whole++
		}
		n = min(n, whole+b.ending())
	}
	opens := b.closed
	if c.Rate > 0 {
		opens = Later(opens, b.next)
		from := Later(b.next, now.Add(-c.burst()))
		n = min(n, int(now.Add(while).Sub(from)/c.interval())+1)
	}
	switch {
	case n <= 0 && !opens.After(now.Add(while)):
		return 0, 0
	case opens.After(now.Add(while)):
		return 0, opens.Sub(now)
	}
	return max(n, 0), 0
}

// ending is how many calls are about to end: what takes their place had better be
// at hand then.
func (b *bucket) ending() int {
	if b.mean == 0 {
		return 0
	}
	return int(float64(b.inFlight) * min(float64(nextTo)/float64(b.mean), 1))
}

// nextTo is what "about to" means.
const nextTo = 20 * time.Millisecond

// maxRoom stands for a room without bound.
const maxRoom = 1 << 30

// away says when a call that could not begin had better come back: in turn with
// the others that were sent away. Nobody is sent away for long on a guess: what
// holds now may not then. Who comes back well before its turn, because the store's clock was set
// forward, is not the only one: all turns are given anew.
func (b *bucket) away(c *Config, id string, now time.Time, wait time.Duration) time.Duration {
	if b.turns[id].Sub(now) > early {
		clear(b.turns)
		b.later = now
	}
	each := c.interval()
	switch {
	case c.Rate > 0:
	case c.Concurrency > 0:
		each = b.mean / time.Duration(c.Concurrency)
	case b.window != nil:
		each = time.Duration(float64(b.mean) / max(b.window.Size(), 1))
	}
	turn := Later(Later(b.later, now.Add(max(wait, minAway))), b.next)
	if turn.Sub(now) > maxAway {
		turn = now.Add(maxAway / 2)
	}
	b.later = turn.Add(each)
	if len(b.turns) >= b.tidyAt {
		maps.DeleteFunc(b.turns, func(_ string, turn time.Time) bool { return !turn.After(now) })
		b.tidyAt = max(2*len(b.turns), minTurns)
	}
	if b.turns == nil {
		b.turns = map[string]time.Time{}
	}
	b.turns[id] = turn
	return max(turn.Sub(now), wait)
}

// maxAway is the longest time for which a message is sent away, if it could begin
// sooner as far as one can tell.
const maxAway = time.Minute

// minAway is the shortest time for which sending a message away is worthwhile.
const minAway = 100 * time.Millisecond

const (
	early    = time.Second // how much before its turn nobody comes back by chance
	minTurns = 64          // how many turns are noted before those that have passed are looked for
)

// idle reports whether the bucket is as good as a new one.
func (b *bucket) idle(now time.Time) bool {
	old := b.seen.IsZero() || now.Sub(b.seen) > keepWindow
	return b.inFlight == 0 && !b.next.After(now) && !b.later.After(now) && !b.closed.After(now) &&
		(b.window == nil || old)
}

// keepWindow is for how long what a window has learned is kept.
const keepWindow = 10 * time.Minute

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
