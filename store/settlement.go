package store

import (
	"slices"

	"github.com/pawl-dev/pawl"
)

// Writes is how many messages and marks the settlement writes, and how many bytes
// they have: both count towards the limits of a call.
func (s *Settlement) Writes() (n, size int) {
	for i := range s.Emit {
		size += s.Emit[i].Size()
	}
	for i := range s.Marks {
		size += s.Marks[i].Size()
	}
	return len(s.Emit) + len(s.Marks), size
}

// Validate reports the first thing in s that no store takes, as an
// [*pawl.InvalidError].
func (s *Settlement) Validate() error {
	switch {
	case s.Verdict < Ack || s.Verdict > Release:
		return pawl.Invalid("verdict", "is missing")
	case s.After < 0 || s.After > pawl.MaxDelay || s.Hold < 0 || s.Hold > pawl.MaxDelay:
		return pawl.Invalid("delay", "after %v, hold %v; they go from 0 to %v", s.After, s.Hold, pawl.MaxDelay)
	case s.Throttled && s.Verdict != Retry:
		return pawl.Invalid("throttled", "goes with retry only")
	case len(s.Emit) > 0 && s.Verdict != Ack:
		return pawl.Invalid("emit", "goes with ack only")
	case len(s.Emit) > MaxEmit:
		return pawl.Invalid("emit", "has %d messages; the limit is %d", len(s.Emit), MaxEmit)
	case len(s.Marks) > 0 && s.Verdict != Ack:
		return pawl.Invalid("marks", "go with ack only")
	case len(s.Marks) > MaxEmit:
		return pawl.Invalid("marks", "are %d; the limit is %d", len(s.Marks), MaxEmit)
	}
	for i := range s.Marks {
		m := &s.Marks[i]
		if err := m.Validate(); err != nil {
			return pawl.Invalid("marks", "[%d]: %v", i, err)
		}
		if slices.ContainsFunc(s.Marks[:i], func(o pawl.Mark) bool { return o.Scope == m.Scope && o.Key == m.Key }) {
			return pawl.Invalid("marks", "[%d]: %.80q is twice in one settlement", i, m.Key)
		}
	}
	for i := range s.Emit {
		if s.Emit[i].Delay < 0 {
			return pawl.Invalid("emit", "[%d]: delay is %v; it goes from 0 to %v", i, s.Emit[i].Delay, pawl.MaxDelay)
		}
	}
	return pawl.CheckEmit(s.Emit...)
}
