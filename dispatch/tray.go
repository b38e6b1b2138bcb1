package dispatch

import (
	"time"

	"github.com/pawl-dev/pawl/store"
)

const (
	fullTray  = 1000                 // settlements that are worth a call of their own
	maxSettle = 2 * fullTray         // of one call
	linger    = time.Millisecond     // how long the first verdict waits for others that are about to come
	trayWait  = 5 * time.Millisecond // how long it waits for a call on its way to end
	settlers  = 4                    // calls of Settle at once, at most
)

// tray is where verdicts wait to be settled together.
type tray struct {
	items []store.Settlement
	outs  []outcome
	since time.Duration // when the first one came
	emits int           // messages that are emitted, and marks
	size  int           // their bytes
}

func (y *tray) add(st *store.Settlement, o outcome) {
	y.items = append(y.items, *st)
	y.outs = append(y.outs, o)
	y.count(st, 1)
}

func (y *tray) count(st *store.Settlement, sign int) {
	n, size := st.Writes()
	y.emits, y.size = y.emits+sign*n, y.size+sign*size
}

// take returns what the next call is to settle, within the limits of a call.
func (y *tray) take() tray {
	n := 0
	var took tray
	for n < len(y.items) && n < maxSettle {
		took.count(&y.items[n], 1)
		if n > 0 && (took.emits > store.MaxBatch || took.size > store.MaxBatchBytes) {
			took.count(&y.items[n], -1)
			break
		}
		n++
	}
	took.items, took.outs, took.since = y.items[:n:n], y.outs[:n:n], y.since
	// The store may keep what it was given, so the next tray is a new one, with
	// room for as much as this one had.
	left := len(y.items) - n
	room := max(n+n/4, left, 64)
	rest := tray{
		items: append(make([]store.Settlement, 0, room), y.items[n:]...),
		outs:  append(make([]outcome, 0, room), y.outs[n:]...),
		since: y.since, emits: y.emits - took.emits, size: y.size - took.size,
	}
	*y = rest
	return took
}
