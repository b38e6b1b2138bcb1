package policy

import "sync/atomic"

// Live is a [Policy] that can be replaced while it is used. A decision is made
// by one policy as a whole, the old one or the new one. Attempts that were
// decided about keep their decision.
type Live struct{ p atomic.Pointer[Policy] }

// NewLive returns a Live that decides as p does, which is not nil.
func NewLive(p Policy) *Live {
	l := &Live{}
	l.Swap(p)
	return l
}

// Decide implements [Policy].
func (l *Live) Decide(a Attempt) Decision { return l.Load().Decide(a) }

// Swap lets p, which is not nil, decide from now on.
func (l *Live) Swap(p Policy) { l.p.Store(&p) }

// Load returns the policy that decides now.
func (l *Live) Load() Policy { return *l.p.Load() }
