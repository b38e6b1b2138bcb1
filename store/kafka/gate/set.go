package gate

import "math/bits"

// set is positions by their distance from a base, a bit for each.
type set []uint64

func (s set) has(i uint64) bool {
	return i/64 < uint64(len(s)) && s[i/64]>>(i%64)&1 != 0
}

// add puts in the n distances from i on. The set has room for them.
func (s set) add(i, n uint64) {
	for end := i + n; i < end; {
		k := min(end-i, 64-i%64)
		s[i/64] |= (1<<k - 1) << (i % 64)
		i += k
	}
}

// remove takes out the n distances from i on.
func (s set) remove(i, n uint64) {
	for end := i + n; i < end; {
		k := min(end-i, 64-i%64)
		s[i/64] &^= (1<<k - 1) << (i % 64)
		i += k
	}
}

// len is how many distances are in the set.
func (s set) len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// run is how many distances from i on are alike: in the set, or not. Behind the
// end none is in it; the run of those has no end, and is given up to it.
func (s set) run(i uint64, in bool) uint64 {
	start := i
	for i/64 < uint64(len(s)) {
		word := s[i/64]
		if in {
			word = ^word
		}
		if word >>= i % 64; word != 0 {
			return i + uint64(bits.TrailingZeros64(word)) - start
		}
		i += 64 - i%64
	}
	return uint64(len(s))*64 - start
}

// trim cuts off the words at the end that have nothing in them.
func (s set) trim() set {
	for len(s) > 0 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	if len(s) == 0 {
		return nil
	}
	return s
}

// extent is the greatest distance in the set and one; 0 for an empty set.
func (s set) extent() uint64 {
	s = s.trim()
	if len(s) == 0 {
		return 0
	}
	return uint64(len(s)-1)*64 + uint64(bits.Len64(s[len(s)-1]))
}
