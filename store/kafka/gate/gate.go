package gate

import (
	"math"
	"slices"
	"sync/atomic"
)

// Window is how many positions a gate looks at: those from the first unfinished
// one on. No position beyond them is admitted.
const Window = 16384

// Admission is what became of a position that was to be registered.
type Admission int

const (
	// Admitted: the position is unfinished until its ticket is acked.
	Admitted Admission = iota
	// Finished: the position is done, by the checkpoint that the gate began with,
	// or because it was left out before. Skip it.
	Finished
	// Full: the position is beyond the window. Nothing has changed; try again when
	// something was acked.
	Full
	// Behind: the position is before the base: done. Skip it.
	Behind
	// Repeated: the position was registered before, and its first ticket is not
	// acked. Skip it: that ticket counts.
	Repeated
	// Closed: the gate is closed. Nothing has changed.
	Closed
)

// Gate is the state of one reading of a log: which positions are finished. The
// package comment says who may call what. Make one with [New] or [Resume].
//
// All bits at and above the tail are clear, but for those that a checkpoint has
// set; all bits below it and from the base on are of positions that were
// registered or left out.
type Gate struct {
	base   atomic.Int64 // written by the owner
	tail   atomic.Int64 // written by the owner
	closed bool         // the owner's
	marked int64        // behind the last mark of a checkpoint; does not change
	late   atomic.Uint64
	ring   ring
}

// New returns the gate of a log that is done up to base: base is the first
// position that is not.
func New(base int64) *Gate {
	g := new(Gate)
	g.base.Store(base)
	g.tail.Store(base)
	g.marked = base
	return g
}

// Resume returns the gate of a log that is read from base on, with what a checkpoint
// knows to be finished. When base is the checkpoint's, all its marks count. When base
// is higher, those below it are of no use, and if base itself is finished the gate's
// own base is the first position after it that is not. When base is lower, the log has
// been reset to be read again: no mark counts.
func Resume(base int64, c Checkpoint) *Gate {
	g := New(base)
	if base < c.Base {
		return g
	}
	skip := uint64(base) - uint64(c.Base)
	for i := skip; i < c.finished.extent(); {
		if n := c.finished.run(i, true); n > 0 {
			g.ring.set(c.Base+int64(i), n)
			i += n
			g.marked = c.Base + int64(i)
		}
		i += c.finished.run(i, false)
	}
	g.Advance()
	return g
}

// Register takes in a position and, when it returns Admitted, gives it its ticket,
// which must be a zero value; it panics when the ticket is in use. In all other
// cases the ticket is left as it is.
//
// Positions ascend. Those between the last registered one and this one are left
// out and count as finished, also if there are more than a window of them, as long
// as nothing is unfinished. Any number but [math.MaxInt64], for which the gate is
// always full, may be a position.
func (g *Gate) Register(pos int64, t *Ticket) Admission {
	if t.gate != nil {
		panic("gate: the ticket is in use")
	}
	tail := g.tail.Load()
	switch {
	case g.closed:
		return Closed
	case pos < tail:
		return g.known(pos)
	case uint64(pos)-uint64(g.base.Load()) >= Window || pos == math.MaxInt64:
		if !g.reach(pos) {
			return Full
		}
		tail = g.tail.Load()
	}
	if pos > tail {
		g.ring.set(tail, uint64(pos)-uint64(tail))
	}
	became := Finished
	if !g.ring.has(pos) {
		t.gate, t.pos = g, pos
		became = Admitted
	}
	g.tail.Store(pos + 1)
	return became
}

// known judges a position before the tail.
func (g *Gate) known(pos int64) Admission {
	switch {
	case pos < g.base.Load():
		return Behind
	case g.ring.has(pos):
		return Finished
	}
	return Repeated
}

// reach moves the window so that it has the position in it, if it can.
func (g *Gate) reach(pos int64) bool {
	base := g.Advance()
	switch {
	case pos == math.MaxInt64:
		return false
	case uint64(pos)-uint64(base) < Window:
		return true
	case base != g.tail.Load():
		return false
	}
	// Nothing is unfinished, and all up to pos is left out: jump.
	g.base.Store(pos) // first, as in Advance; and before the tail, so that no figure sees the gap
	g.ring.clear(base, Window)
	g.tail.Store(pos)
	return true
}

// Advance moves the base over all that is finished without a gap, and returns it.
// Over the life of a gate it costs a constant per position.
func (g *Gate) Advance() int64 {
	from := g.base.Load()
	n := g.ring.run(from)
	if n == 0 {
		return from
	}
	base := from + int64(n)
	if g.tail.Load() < base { // marks of a checkpoint
		g.tail.Store(base)
	}
	g.base.Store(base) // first: see the package comment
	g.ring.clear(from, n)
	return base
}

// Close ends the gate: acks that come later change nothing and are counted. What
// was acked before is in every later checkpoint. Close may be called again.
func (g *Gate) Close() {
	g.closed = true
	g.ring.seal()
}

// Checkpoint moves the base as [Gate.Advance] does, and returns it with what is
// finished above it and what the owner wants kept with them. Every ack that
// returned true before the call is in it. A closed gate may be asked.
func (g *Gate) Checkpoint(extra Extra) Checkpoint {
	base := g.Advance()
	var ring, bits image
	g.ring.copyTo(&ring)
	bits.from(base, &ring)
	bits[0] &^= 1 // an ack since then: the base is not finished in a checkpoint
	c := Checkpoint{Base: base, Extra: extra, finished: slices.Clone(set(bits[:]).trim())}
	c.Tries = c.tries()
	return c
}

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
