package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// TestAKillerIsFound: a message that kills its process the moment it is handed out
// is a dead letter after eight deaths at most, wherever it lies, and nobody else is.
// A process commits what it must before it carries something out, and else never:
// it dies before.
func TestAKillerIsFound(t *testing.T) {
	const messages, mostDeaths = 2500, 8
	for _, killer := range []int64{0, 7, 300, 2300} {
		for _, limit := range []int{1, 8, 1000} {
			t.Run(fmt.Sprintf("%d by claims of %d", killer, limit), func(t *testing.T) {
				life := &lives{t: t, killer: killer, limit: limit, saved: gate.Checkpoint{Extra: gate.Extra{Source: 1}},
					over: map[int64]bool{}}
				deaths := 0
				for ; deaths <= mostDeaths && !life.live(messages); deaths++ {
				}
				if deaths > mostDeaths || deaths < store.SolitaryAfter+store.LonelyRescues-1 {
					t.Errorf("%d processes died", deaths)
				}
				if len(life.over) != messages-1 || life.over[killer] || !life.buried {
					t.Errorf("%d of %d are over; the killer is buried: %v", len(life.over), messages-1, life.buried)
				}
			})
		}
	}
}

// lives are those of processes that have a partition, one after the other.
type lives struct {
	t      *testing.T
	killer int64
	limit  int
	saved  gate.Checkpoint
	over   map[int64]bool
	buried bool
}

// live is one of them; true if it came to the end.
func (l *lives) live(messages int64) bool {
	r := newRig(l.t, Consuming{})
	a := r.resume(l.saved)
	for at := l.saved.Base; ; {
		for ; at < messages && r.engine.take(a, records(at, fmt.Sprint("k", at))) == 1; at++ {
		}
		c, err := r.engine.claim([]store.Want{{Topic: rigTopic, Limit: l.limit, Run: 1}},
			&store.Lease{For: time.Minute, Suspects: store.MaxSuspects, Alone: true})
		if err != nil {
			l.t.Fatal(err)
		}
		l.writeDead(r)
		if len(c.ds) == 0 && len(c.deaths) == 0 {
			if len(l.over) == int(messages) || l.buried {
				return true
			}
			r.pass(store.DeathsWithin * time.Minute) // the last deaths were in company
			continue
		}
		if c.careful[a] || c.fresh[a] {
			l.saved = r.checkpoint(a)
			r.ownership.marked(map[*assignment]bool{a: true})
		}
		for _, g := range handed(c) {
			if g.flight.rec.Offset == l.killer {
				return false
			}
		}
		for _, g := range handed(c) {
			r.ack(g)
			l.over[g.flight.rec.Offset] = true
		}
		a.gate.Advance()
	}
}

func (l *lives) writeDead(r *rig) {
	for _, d := range r.engine.takeDeaths() {
		if at := d.flight.rec.Offset; at != l.killer {
			l.t.Errorf("%d is dead, a neighbour", at)
		}
		r.engine.letterWritten(d)
		l.buried = true
	}
}

// TestAnIdleProcessDies: who had nothing in hand leaves no reason to go slowly, but
// one to have on record what is carried out next.
func TestAnIdleProcessDies(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b")...)
	for _, g := range r.claim(9) {
		r.ack(g)
	}
	idle := r.checkpoint(a)
	r.ownership.drop(a)
	b := r.resume(idle)
	r.take(b, records(2, "c", "d")...)
	claim := func() *claim {
		c, err := r.engine.claim([]store.Want{{Topic: rigTopic, Limit: 1}}, &store.Lease{For: time.Minute})
		if err != nil || len(c.ds) != 1 {
			t.Fatal(c, err)
		}
		return c
	}
	if c := claim(); b.mostLanes() != maxCount || !c.careful[b] {
		t.Errorf("%d lanes, on record first %v; want the second alone", b.mostLanes(), c.careful[b])
	}
	if left := r.ownership.conclude(b); !left.Open || left.Horizon >= left.Base {
		t.Errorf("given up while it was wary, it leaves %+v", left)
	}
	r.engine.leftovers = map[string]*leftover{}
	b = r.resume(idle)
	r.take(b, records(2, "c", "d")...)
	r.ownership.marked(map[*assignment]bool{b: true})
	r.pass(waryIntervals * r.engine.limits.Commit)
	if c := claim(); c.careful[b] || c.fresh[b] {
		t.Error("it is wary for ever")
	}
}

// TestARetryIsNothingInHand: a message that waits for its retry when its process dies
// is not why.
func TestARetryIsNothingInHand(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b")...)
	for i, g := range r.claim(9) {
		r.settle(g, store.Settlement{Verdict: []store.Verdict{store.Retry, store.Ack}[i], After: time.Hour})
	}
	if b := r.resume(r.checkpoint(a)); b.danger >= 0 || b.wary == 0 {
		t.Errorf("the next one is in danger up to %d, and wary until %d", b.danger, b.wary)
	}
}
