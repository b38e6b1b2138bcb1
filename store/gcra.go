package store

import (
	"time"

	"github.com/pawl-dev/pawl"
)

// paceAhead bounds how far into the future permits reach, so that sums of times cannot
// overflow.
const paceAhead = pawl.MaxDelay

// Floor is how far ahead of now the time of the key is at least, Takes by how much the
// permits move it ahead, and Room how far ahead of now it may be afterwards. The time of
// a key is the theoretical arrival time of the generic cell rate algorithm (ITU-T I.371)
// for the call after the last one; it may be Ahead of now without a wait.
func (p *Pace) Floor() time.Duration {
	if p.Hold == 0 {
		return 0
	}
	return p.Hold + p.Ahead() - p.Every
}

// Takes: see Floor.
func (p *Pace) Takes() time.Duration { return time.Duration(p.N) * p.Every }

// Room: see Floor.
func (p *Pace) Room() time.Duration {
	if p.Hold > 0 {
		return 4 * paceAhead
	}
	return p.Ahead() + p.Within
}

// Ahead: see Floor.
func (p *Pace) Ahead() time.Duration { return time.Duration(p.Burst) * p.Every }

// Answer is the answer to a pace if afterwards the time of the key is that far ahead of
// now.
func (p *Pace) Answer(ahead time.Duration, taken bool) Paced {
	if p.Hold > 0 {
		return Paced{taken, max(ahead-p.Ahead()+p.Every, 0)}
	}
	if !taken {
		ahead += p.Takes()
		return Paced{false, max(ahead-p.Ahead()-p.Within, time.Microsecond)}
	}
	return Paced{true, max(ahead-p.Ahead(), 0)}
}

// Advance takes permits of a key whose time is that far ahead of now, at least 0, and
// returns how far ahead it is afterwards.
func (p *Pace) Advance(ahead time.Duration) (next time.Duration, answer Paced) {
	next = max(ahead, p.Floor()) + p.Takes()
	taken := next <= p.Room()
	if !taken {
		next = ahead
	}
	return next, p.Answer(next, taken)
}
