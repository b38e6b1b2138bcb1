package gate

// Base is the first position that is not finished, as of the last Advance.
func (g *Gate) Base() int64 { return g.base.Load() }

// Tail is the lowest position that may be registered next.
func (g *Gate) Tail() int64 { return g.tail.Load() }

// Late is how many acks came after Close.
func (g *Gate) Late() uint64 { return g.late.Load() }

// Backlog is how many positions are finished behind one that is not: what cannot
// be written down by the base alone. It looks at the whole window: about a microsecond.
func (g *Gate) Backlog() int {
	var v view
	v.look(g)
	s := set(v.bits[:])
	return s.below(v.known) - int(min(s.run(0, true), v.known))
}

// view is a window as it was read while others changed it.
type view struct {
	bits       image
	registered uint64 // so many positions from the base on were registered or left out
	known      uint64 // so many may be set; the rest may be the past, not cleared yet
}

// look reads the window of a gate. The order of the reads matters: what the tail
// says is in the ring before it; what the base has moved over is cleared after it.
func (v *view) look(g *Gate) {
	var ring image
	tail := g.tail.Load()
	g.ring.copyTo(&ring)
	base := g.base.Load()
	v.bits.from(base, &ring)
	v.registered, v.known = distance(base, tail), distance(base, max(tail, g.marked))
}

// distance is how far to is behind from; 0 if it is not.
func distance(from, to int64) uint64 {
	if to <= from {
		return 0
	}
	return uint64(to) - uint64(from)
}

// LeftOut is how many positions from one on, and before another, are left out unfinished
// when that one is registered next: those that the checkpoint marked do not count. From
// is not before the tail. Only the owner may call it.
func (g *Gate) LeftOut(from, to int64) uint64 {
	n := distance(from, to)
	for pos := from; pos < min(to, g.marked); pos++ {
		if g.ring.has(pos) {
			n--
		}
	}
	return n
}
