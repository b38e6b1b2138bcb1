package gate

import (
	"cmp"
	"iter"
	"slices"
)

// MaxTries is how many [Extra.Tries] a checkpoint keeps.
const MaxTries = 8

// Checkpoint is the progress in a log at one moment: all before Base is finished, Base
// is not, and some positions above it are. It is a value: it does not change with its
// gate. Its zero value knows nothing.
type Checkpoint struct {
	Base int64
	Extra
	finished set // by distance from Base; 0 is not in it
}

// Extra is what the owner of a gate wants kept with a checkpoint. The gate does
// not look at it.
type Extra struct {
	// Open: the owner is at work. A checkpoint that is found open is from an owner that
	// did not shut down cleanly.
	Open bool
	// Horizon is the highest position that was ever handed out; 0 if none was.
	Horizon int64
	// Crashes is how many owners in a row did not shut down cleanly.
	Crashes uint8
	// Source stands for the identity of the log. A checkpoint of another one is
	// not used.
	Source uint32
	// Tries are unfinished positions with how often they were begun. A checkpoint
	// keeps those with a count, at Base or above and not finished, in ascending
	// order, and of these the first [MaxTries]: they hold up the base. Of two for
	// one position it keeps the higher count.
	Tries []Try
}

// Try is how often a position was begun.
type Try struct {
	Pos   int64
	Count uint8
}

// tries are the Tries that a checkpoint keeps.
func (c *Checkpoint) tries() []Try {
	var kept []Try
	for _, t := range c.Tries {
		if t.Count > 0 && !c.Has(t.Pos) {
			kept = append(kept, t)
		}
	}
	slices.SortFunc(kept, func(a, b Try) int {
		return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(b.Count, a.Count))
	})
	kept = slices.CompactFunc(kept, func(a, b Try) bool { return a.Pos == b.Pos })
	return slices.Clip(kept[:min(len(kept), MaxTries)])
}

// Has reports whether the checkpoint knows a position to be finished.
func (c Checkpoint) Has(pos int64) bool {
	return pos < c.Base || c.finished.has(uint64(pos)-uint64(c.Base))
}

// Len is how many positions above the base are finished.
func (c Checkpoint) Len() int { return c.finished.len() }

// Finished are the finished positions above the base, in ascending order.
func (c Checkpoint) Finished() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for i := range c.finished.extent() {
			if c.finished.has(i) && !yield(c.Base+int64(i)) {
				return
			}
		}
	}
}
