package site

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// A Fault is what goes wrong with one request.
type Fault uint8

// The faults that pass. A page's plan, from [Site.Plan], is made of these.
const (
	FaultThrottled   Fault = iota + 1 // 429, Retry-After: 1
	FaultThrottledBy                  // 429, Retry-After: a date, one to two seconds ahead
	FaultUnavailable                  // 503
	FaultInternal                     // 500
	FaultSlow                         // a good answer, 300 to 800 ms late
	FaultReset                        // 200, then a reset in the middle of the body
	FaultTruncated                    // 200, then the end before Content-Length
)

var faultNames = [...]string{"none", "throttled", "throttled-by", "unavailable", "internal", "slow", "reset", "truncated"}

// String returns the fault in one word.
func (f Fault) String() string { return faultNames[f] }

// Bounds of a slow answer.
const (
	slowestLeast = 300 * time.Millisecond
	slowestMost  = 800 * time.Millisecond
)

// trouble is what is wrong with a page.
type trouble struct {
	plan    []Fault // of its first requests, in order
	delay   time.Duration
	broken  bool
	failing bool
}

// dice returns a number that depends on seed and path alone, the same in every
// version of Go.
func dice(seed uint64, path string) uint64 {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), path...))
	return binary.LittleEndian.Uint64(sum[:])
}

// assign gives the pages their faults. The pages are shuffled by the seed;
// then each kind of fault takes as many as are its share from the front.
func assign(all []*page, seed uint64, rates FaultRates) {
	rolls := make(map[*page]uint64, len(all))
	for _, p := range all {
		rolls[p] = dice(seed, p.path)
	}
	// The index stays well: it is where one looks first.
	deck := slices.SortedFunc(slices.Values(all[1:]), func(a, b *page) int {
		return cmp.Or(cmp.Compare(rolls[a], rolls[b]), cmp.Compare(a.path, b.path))
	})
	deck = assignForEver(deck, rates)
	for _, kind := range []struct {
		share float64
		plan  func(p *page, roll uint64)
	}{
		{rates.Throttled, onceOrTwice(FaultThrottled, FaultThrottledBy)},
		{rates.Erroring, onceOrTwice(FaultUnavailable, FaultInternal)},
		{rates.Slow, slow},
		{rates.Reset, once(FaultReset)},
		{rates.Truncated, once(FaultTruncated)},
	} {
		n := min(int(math.Ceil(kind.share*float64(len(all)))), len(deck))
		for _, p := range deck[:n] {
			kind.plan(p, rolls[p])
		}
		deck = deck[n:]
	}
}

// assignForEver chooses the failing and the broken pages among the leaves, so
// that every other page stays reachable, and returns the rest of the deck.
func assignForEver(deck []*page, rates FaultRates) []*page {
	failing, broken := rates.Failing, rates.Broken
	return slices.DeleteFunc(deck, func(p *page) bool {
		switch {
		case !p.leaf:
			return false
		case failing > 0:
			failing--
			p.failing = true
		case broken > 0:
			broken--
			p.broken = true
		}
		return p.failing || p.broken
	})
}

func once(f Fault) func(*page, uint64) {
	return func(p *page, _ uint64) { p.plan = []Fault{f} }
}

// onceOrTwice plans a, b, or both in either order.
func onceOrTwice(a, b Fault) func(*page, uint64) {
	return func(p *page, roll uint64) {
		p.plan = []Fault{a, b}
		if roll&1 == 1 {
			slices.Reverse(p.plan)
		}
		if roll&2 == 2 {
			p.plan = p.plan[:1]
		}
	}
}

func slow(p *page, roll uint64) {
	p.plan = []Fault{FaultSlow}
	p.delay = slowestLeast + time.Duration(roll%uint64(slowestMost-slowestLeast+1))
}

// DefaultPages is the number of pages the demo serves unless told otherwise.
const DefaultPages = 3000

// Options says how large a site is and what is wrong with it.
type Options struct {
	// Pages is how many pages the site has, at least 1.
	Pages int
	// Seed decides what the pages say, where they link to and which of them have which fault. Equal seeds, equal sites.
	Seed uint64
	// Faults says how many pages have faults; the zero value is none.
	// [DefaultFaults] is what the demo uses.
	Faults FaultRates
}

// FaultRates says how many pages have which fault. The first five are shares
// of all pages, from 0 to 1, rounded up, with a sum of at most 1: a page has
// faults of one kind only. The index has none.
type FaultRates struct {
	// Throttled pages answer 429 to their first one or two requests, with a
	// Retry-After of one second or a date one to two seconds ahead.
	Throttled float64
	// Erroring pages answer 503 or 500 to their first one or two requests.
	Erroring float64
	// Slow pages take 300 to 800 ms for the first byte of their first answer.
	Slow float64
	// Reset pages have their first connection reset in the middle of the body.
	Reset float64
	// Truncated pages end their first body before its Content-Length.
	Truncated float64
	// Broken is the number of pages that no parser can read, ever.
	Broken int
	// Failing is the number of pages that always answer 500.
	Failing int
}

// DefaultFaults returns the rates of the demo: every kind of fault occurs, and
// a polite crawl of [DefaultPages] pages still ends well within a minute. What
// costs time is the 429: a crawler that pauses the whole host for each of them
// stands still for a second or two, so that there are few.
func DefaultFaults() FaultRates {
	return FaultRates{
		Throttled: 0.002, Erroring: 0.01, Slow: 0.005, Reset: 0.005, Truncated: 0.005,
		Broken: 3, Failing: 2,
	}
}
