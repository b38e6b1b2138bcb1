package gate

import (
	"math/bits"
	"sync/atomic"
)

const (
	// span is how many positions a word of the ring has bits for. The upper half
	// of the word has the seal only: it must be in the word that an ack changes.
	span = 32
	seal = 1 << 63
)

// ring has a bit per position of the window: finished, or not. The bit of a
// position is also that of the one a window further on.
type ring [Window / span]atomic.Uint64

// at is the word of a position, and its bit in it.
func (r *ring) at(pos int64) (*atomic.Uint64, uint64) {
	return &r[uint64(pos)/span%uint64(len(r))], 1 << (uint64(pos) % span)
}

func (r *ring) has(pos int64) bool {
	word, bit := r.at(pos)
	return word.Load()&bit != 0
}

// finish sets the bit of a position, unless its word is sealed.
func (r *ring) finish(pos int64) bool {
	word, bit := r.at(pos)
	for {
		old := word.Load()
		if old&seal != 0 {
			return false
		}
		if word.CompareAndSwap(old, old|bit) {
			return true
		}
	}
}

// seal ends finish: when it returns, no bit will be set any more.
func (r *ring) seal() {
	for i := range r {
		r[i].Or(seal)
	}
}

// set sets the n bits from pos on.
func (r *ring) set(pos int64, n uint64) {
	for n > 0 {
		word, mask, k := r.part(pos, n)
		word.Or(mask)
		pos, n = pos+int64(k), n-k
	}
}

// clear clears the n bits from pos on.
func (r *ring) clear(pos int64, n uint64) {
	for n > 0 {
		word, mask, k := r.part(pos, n)
		word.And(^mask)
		pos, n = pos+int64(k), n-k
	}
}

// part is the first word of the n positions from pos on, and the mask of those k
// positions that are in it.
func (r *ring) part(pos int64, n uint64) (word *atomic.Uint64, mask, k uint64) {
	word, bit := r.at(pos)
	k = min(n, span-uint64(pos)%span)
	return word, (1<<k - 1) * bit, k
}

// run is how many bits are set from pos on without a gap.
func (r *ring) run(pos int64) uint64 {
	n := uint64(0)
	for n < Window {
		word, _ := r.at(pos + int64(n))
		off := (uint64(pos) + n) % span
		k := uint64(bits.TrailingZeros32(^(uint32(word.Load()) >> off)))
		n += k
		if off+k < span {
			break
		}
	}
	return min(n, Window)
}

// image is the bits of a window, 64 in a word.
type image [Window / 64]uint64

// copyTo reads the ring, one word after the other.
func (r *ring) copyTo(m *image) {
	for i := range m {
		m[i] = r[2*i].Load()&(1<<span-1) | r[2*i+1].Load()<<span
	}
}

// from turns the image of a ring so that it begins at base: bit i is position
// base+i.
func (m *image) from(base int64, ring *image) {
	first, off := uint64(base)/64, uint64(base)%64
	for i := range m {
		at := (first + uint64(i)) % uint64(len(ring))
		next := (at + 1) % uint64(len(ring))
		m[i] = ring[at]>>off | ring[next]<<(64-off)
	}
}
