package store

import (
	"cmp"
	"time"

	"github.com/pawl-dev/pawl"
)

// paceAhead bounds how far into the future permits reach, so that sums of times cannot
// overflow.
const paceAhead = pawl.MaxDelay

// AdmitPaces checks a Reserve, and fills in defaults.
func AdmitPaces(paces []Pace) ([]Pace, error) {
	if len(paces) > MaxBatch {
		return nil, tooLarge("reserve", "%d keys; the limit is %d", len(paces), MaxBatch)
	}
	all, seen := make([]Pace, len(paces)), make(map[string]bool, len(paces))
	for i, p := range paces {
		p.Burst = cmp.Or(p.Burst, 1)
		if err := p.validate(); err != nil {
			return nil, err
		}
		if seen[p.Key] {
			return nil, pawl.Invalid("pace key", "%.80q is twice in one call", p.Key)
		}
		all[i], seen[p.Key] = p, true
	}
	return all, nil
}

func (p *Pace) validate() error {
	switch {
	case p.Key == "" || len(p.Key) > pawl.MaxKey:
		return pawl.Invalid("pace key", "is %d bytes long; it has 1 to %d", len(p.Key), pawl.MaxKey)
	case p.Every <= 0 || p.Burst < 1 || p.Every > paceAhead/time.Duration(p.Burst):
		return pawl.Invalid("pace", "of %v with a burst of %d; a burst is at least 1 and takes up to %v", p.Every,
			p.Burst, paceAhead)
	case p.N < 0 || p.N > p.Burst || p.Within < 0 || p.Within > paceAhead || p.Hold < 0 || p.Hold > paceAhead:
		return pawl.Invalid("pace", "asks for %d of a burst of %d within %v, or a hold of %v", p.N, p.Burst, p.Within,
			p.Hold)
	case (p.N > 0) == (p.Hold > 0):
		return pawl.Invalid("pace", "asks for %d permits and a hold of %v; ask for one of them", p.N, p.Hold)
	}
	return nil
}

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

// Answer is the answer to a pace after which the time of the key is that far ahead of
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
