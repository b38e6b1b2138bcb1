package gate

import "math"

// Window is how many positions a gate looks at: those from the first unfinished
// one on. No position beyond them is admitted.
const Window = 16384

// Admission is what became of a position that was to be registered.
type Admission int

const (
	// Admitted: the position is unfinished until Finish.
	Admitted Admission = iota
	// Known: the position was registered or left out before, or the checkpoint that the
	// gate began with says that it is finished. Skip it.
	Known
	// Full: the position is beyond the window. Nothing has changed; try again when
	// something was finished.
	Full
)

// Gate is the state of one reading of a log: which positions are finished. Make one
// with [New] or [Resume].
//
// All bits at and above the tail are clear, but for those that a checkpoint has
// set; all bits below it and from the base on are of positions that were
// registered or left out.
type Gate struct {
	base, tail int64
	marked     int64 // behind the last mark of a checkpoint; does not change
	ring       ring
}

// New returns the gate of a log that is done up to base: base is the first
// position that is not.
func New(base int64) *Gate { return &Gate{base: base, tail: base, marked: base} }

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

// Register takes in a position.
//
// Positions ascend. Those between the last registered one and this one are left
// out and count as finished, also if there are more than a window of them, as long
// as nothing is unfinished. Any number but [math.MaxInt64], for which the gate is
// always full, may be a position.
func (g *Gate) Register(pos int64) Admission {
	switch {
	case pos < g.tail:
		return Known
	case pos == math.MaxInt64 || !g.reach(pos):
		return Full
	}
	g.ring.set(g.tail, uint64(pos)-uint64(g.tail))
	g.tail = pos + 1
	if g.ring.has(pos) {
		return Known
	}
	return Admitted
}

// reach moves the window so that it has the position in it, if it can.
func (g *Gate) reach(pos int64) bool {
	if uint64(pos)-uint64(g.base) < Window {
		return true
	}
	base := g.Advance()
	switch {
	case uint64(pos)-uint64(base) < Window:
		return true
	case base != g.tail:
		return false
	}
	// Nothing is unfinished, and all up to pos is left out: jump.
	g.ring = ring{}
	g.base, g.tail = pos, pos
	return true
}

// Finish says that the work of a position is over, for good: done, or recorded as
// dead. It returns false, and changes nothing, when the position is finished already,
// or was never registered.
func (g *Gate) Finish(pos int64) bool {
	if pos < g.base || pos >= g.tail || g.ring.has(pos) {
		return false
	}
	g.ring.set(pos, 1)
	return true
}

// Advance moves the base over all that is finished without a gap, and returns it.
// Over the life of a gate it costs a constant per position.
func (g *Gate) Advance() int64 {
	n := g.ring.run(g.base)
	g.ring.clear(g.base, n)
	g.base += int64(n)
	g.tail = max(g.tail, g.base) // marks of a checkpoint
	return g.base
}

// Base is the first position that is not finished, as of the last Advance.
func (g *Gate) Base() int64 { return g.base }

// Tail is the lowest position that may be registered next.
func (g *Gate) Tail() int64 { return g.tail }

// Backlog is how many positions are finished behind one that is not: what cannot
// be written down by the base alone. It looks at the whole window: about a microsecond.
func (g *Gate) Backlog() int { return set(g.ring[:]).len() - int(g.ring.run(g.base)) }

// LeftOut is how many positions from one on, and before another, are left out unfinished
// when that one is registered next: those that the checkpoint marked do not count. From
// is not before the tail.
func (g *Gate) LeftOut(from, to int64) uint64 {
	if to <= from {
		return 0
	}
	n := uint64(to) - uint64(from)
	for pos := from; pos < min(to, g.marked); pos++ {
		if g.ring.has(pos) {
			n--
		}
	}
	return n
}

// Checkpoint moves the base as [Gate.Advance] does, and returns it with what is
// finished above it and what the owner wants kept with them.
func (g *Gate) Checkpoint(extra Extra) Checkpoint {
	c := Checkpoint{Base: g.Advance(), Extra: extra}
	c.finished = g.ring.from(c.Base)
	c.Tries = c.tries()
	return c
}
