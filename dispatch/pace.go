package dispatch

import "time"

// pace says when to claim from a topic that has room. A claim that brought all
// it asked for is followed by the next one at once; there is no cooldown.
type pace struct {
	due   time.Duration // when to claim next
	pause time.Duration // while nothing comes; doubles
	// short is when a claim last brought less than it asked for: the store was
	// empty. Wake-ups soon after it are answered together.
	short  time.Duration
	woken  bool          // something may have become claimable since the last claim was sent
	known  time.Duration // when something of ours becomes claimable; 0: not known
	probed time.Duration // when something better than what waits was last looked for
	gap    time.Duration // until it may be looked for again
	before time.Duration // the gap before that look
	looked *claim        // by which it was looked for
}

const (
	gather   = time.Millisecond       // how long wake-ups are gathered after a short claim
	probeGap = 5 * time.Millisecond   // between looks for something better
	vainGap  = 100 * time.Millisecond // the same, at most, while there is nothing
)

// wake makes the topic due, as soon as its last short claim allows.
func (p *pace) wake(now time.Duration) {
	p.woken = true
	p.due = min(p.due, max(now, p.short+gather))
}

// claimed sets the pace after a claim: the pause of a topic that has nothing to do goes from least to most.
func (p *pace) claimed(now time.Duration, wanted, got int, least, most time.Duration) {
	switch {
	case got >= wanted:
		p.due, p.pause = now, 0
		return
	case got > 0:
		p.pause = min(least, most)
	default:
		p.pause = min(max(2*p.pause, least), most)
	}
	p.short, p.due = now, now+p.pause
	if p.woken {
		p.due = now + gather
	}
	if p.known > now {
		p.due = min(p.due, p.known)
	}
}

// dueAt brings the next claim forward to a moment at which something is known
// to become claimable. It remembers one such moment: the others are found by
// polling.
func (p *pace) dueAt(now, at time.Duration) {
	if p.known <= now || at < p.known {
		p.known = at
	}
	p.due = min(p.due, at)
}
