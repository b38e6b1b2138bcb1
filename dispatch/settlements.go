package dispatch

import (
	"time"

	"github.com/pawl-dev/pawl/store"
)

const (
	fullCall  = 1000                 // settlements that are worth a call of their own
	maxSettle = 2 * fullCall         // of one call
	linger    = time.Millisecond     // how long the first verdict waits for others that are about to come
	awaitCall = 5 * time.Millisecond // how long it waits for a call on its way to end
	settlers  = 4                    // calls of Settle at once, at most
)

// settlements are verdicts that wait to be settled in one call.
type settlements struct {
	items []store.Settlement
	outs  []outcome
	since time.Duration // when the first one came
	emits int           // messages that are emitted, and marks
	size  int           // their bytes
}

func (s *settlements) add(st *store.Settlement, o outcome) {
	s.items = append(s.items, *st)
	s.outs = append(s.outs, o)
	s.count(st, 1)
}

func (s *settlements) count(st *store.Settlement, sign int) {
	n, size := st.Writes()
	s.emits, s.size = s.emits+sign*n, s.size+sign*size
}

// take returns what the next call is to settle, within the limits of a call.
func (s *settlements) take() settlements {
	n := 0
	var took settlements
	for n < len(s.items) && n < maxSettle {
		took.count(&s.items[n], 1)
		if n > 0 && (took.emits > store.MaxBatch || took.size > store.MaxBatchBytes) {
			took.count(&s.items[n], -1)
			break
		}
		n++
	}
	took.items, took.outs, took.since = s.items[:n:n], s.outs[:n:n], s.since
	// The store may keep what it was given, so what is left gets new slices, with
	// room for as much as this one had.
	left := len(s.items) - n
	room := max(n+n/4, left, 64)
	rest := settlements{
		items: append(make([]store.Settlement, 0, room), s.items[n:]...),
		outs:  append(make([]outcome, 0, room), s.outs[n:]...),
		since: s.since, emits: s.emits - took.emits, size: s.size - took.size,
	}
	*s = rest
	return took
}
