package gate

import "slices"

// ring has a bit per position of the window: finished, or not. The bit of a
// position is also that of the one a window further on.
type ring [Window / 64]uint64

func slot(pos int64) uint64 { return uint64(pos) % Window }

func (r *ring) has(pos int64) bool { return set(r[:]).has(slot(pos)) }

// set sets the n bits from pos on.
func (r *ring) set(pos int64, n uint64) {
	first := min(n, Window-slot(pos))
	set(r[:]).add(slot(pos), first)
	set(r[:]).add(0, n-first)
}

// clear clears the n bits from pos on.
func (r *ring) clear(pos int64, n uint64) {
	first := min(n, Window-slot(pos))
	set(r[:]).remove(slot(pos), first)
	set(r[:]).remove(0, n-first)
}

// run is how many bits are set from pos on without a gap.
func (r *ring) run(pos int64) uint64 {
	n := set(r[:]).run(slot(pos), true)
	if n < Window-slot(pos) {
		return n
	}
	return min(n+set(r[:]).run(0, true), Window)
}

// from is the positions that are set, by their distance from base.
func (r *ring) from(base int64) set {
	var s ring
	first, off := slot(base)/64, slot(base)%64
	for i := range s {
		at := (first + uint64(i)) % uint64(len(r))
		next := (at + 1) % uint64(len(r))
		s[i] = r[at]>>off | r[next]<<(64-off)
	}
	return slices.Clone(set(s[:]).trim())
}
