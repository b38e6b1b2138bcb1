package gate

import "sync/atomic"

// Ticket stands for one registered position. It is part of the caller's record of
// it; its zero value is ready for [Gate.Register], once. A ticket must not be
// copied after that, and never be registered again: a pool of records makes new
// tickets.
type Ticket struct {
	gate *Gate
	pos  int64
	done atomic.Bool // also keeps a ticket from being acked twice, when its bit may be another position's
}

// Ack says that the work of the position is over, for good: done, or recorded as
// dead. It returns true when that counts: the position is finished, and is in
// every checkpoint taken later. It returns false, and changes nothing, when the
// ticket was acked before, when its gate is closed (see [Gate.Late]), or when it
// was never admitted.
//
// Ack is safe for concurrent use, takes no lock and does not allocate.
func (t *Ticket) Ack() bool {
	if t.gate == nil || !t.done.CompareAndSwap(false, true) {
		return false
	}
	if !t.gate.ring.finish(t.pos) {
		t.gate.late.Add(1)
		return false
	}
	return true
}

// Pos is the position that the ticket was admitted for; 0 if it was not.
func (t *Ticket) Pos() int64 { return t.pos }
