package kafka

import (
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// TestACrashMemorySurvivesACleanOwner: who may have killed a process is still not
// known when its partition is given to the next one, and after that is known as
// before (the whole of a cautious assignment).
func TestACrashMemorySurvivesACleanOwner(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b")...)
	died := r.deaths(a, store.SolitaryAfter, "a", "b")
	for owner := range 3 {
		b := r.resume(died)
		r.take(b, records(0, "a", "b")...)
		if b.mostLanes() != namedLanes || b.crashes != 4 {
			t.Fatalf("owner %d: %d lanes after %d crashes", owner, b.mostLanes(), b.crashes)
		}
		for _, f := range []*flight{b.find(0), b.find(1)} {
			if f == nil || !f.solitary() || f.trouble.lonely != 0 {
				t.Fatalf("owner %d: nobody is to be alone at 0 and 1, or has been", owner)
			}
		}
		died = r.ownership.conclude(b)
		r.ownership.drop(b)
	}
}

// TestALonelyTryIsCountedByDeathsOnly: a suspect that is handed back, or whose
// partition moves while it is carried out, has killed nobody.
func TestALonelyTryIsCountedByDeathsOnly(t *testing.T) {
	alone := store.Lease{For: time.Minute, Alone: true}
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a")...)
	cp := r.deaths(a, store.SolitaryAfter, "a")
	for death := range store.LonelyRescues {
		a = r.resume(cp)
		r.take(a, records(0, "a")...)
		if death == 0 { // those before it were in company
			if len(r.claimWith(1, alone)) != 0 {
				t.Fatal("a message is tried alone although processes died beside other work")
			}
			r.pass(store.DeathsWithin * time.Minute)
		}
		if f := a.find(0); f == nil || f.trouble == nil || f.trouble.lonely != death {
			t.Fatalf("after %d lonely deaths: %+v", death, f)
		}
		if len(r.claimWith(1, alone)) != 1 {
			t.Fatal("the suspect was not handed out")
		}
		cp = r.checkpoint(a)
		if final := r.ownership.conclude(a); final.Tries[0].Count != uint8(death+1) {
			t.Errorf("given up while it is carried out: %+v", final.Tries)
		}
		r.engine.leftovers = map[string]*leftover{}
	}
	a = r.resume(cp)
	r.take(a, records(0, "a")...)
	if got := r.claim(1); len(got) != 0 || a.dying != 1 {
		t.Errorf("after three lonely deaths it was handed out: %v", offsets(got))
	}
}

// deaths lets so many processes die that have what is there in hand, the first of them a's.
func (r *rig) deaths(a *assignment, n int, keys ...string) (left gate.Checkpoint) {
	r.t.Helper()
	for range n {
		if len(r.claim(9)) != len(keys) {
			r.t.Fatal("not everything was handed out")
		}
		left = r.checkpoint(a)
		r.ownership.drop(a)
		r.engine.leftovers = map[string]*leftover{}
		a = r.resume(left)
		r.take(a, records(0, keys...)...)
	}
	return left
}

// TestOneDeathIsNoReason: after one death everything is handed out as before, after two
// 32 lanes, after three four, which are on record before they begin.
func TestOneDeathIsNoReason(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	for deaths, want := range []int{100, 100, 32, 4, 0} {
		r.take(a, records(0, keys...)...)
		c, err := r.engine.claim([]store.Want{{Topic: rigTopic, Limit: 1000}},
			&store.Lease{For: time.Minute, Suspects: store.MaxSuspects})
		if err != nil || len(c.ds) != want && deaths < 4 {
			t.Fatalf("after %d deaths %d are handed out: %v", deaths, len(c.ds), err)
		}
		if c.careful[a] != (deaths >= 3) {
			t.Errorf("after %d deaths a commit goes before: %v", deaths, c.careful[a])
		}
		cp := r.checkpoint(a)
		if named := len(cp.Tries); named != map[int]int{3: 4, 4: 8}[deaths] {
			t.Errorf("after %d deaths %d are named", deaths, named)
		}
		r.ownership.drop(a)
		r.engine.leftovers = map[string]*leftover{}
		a = r.resume(cp)
	}
}

// TestPuttingOffEnds: where processes go on dying, each sixteenth death in a row lets messages be tried alone.
func TestPuttingOffEnds(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b")...)
	cp := r.deaths(a, store.SolitaryAfter, "a", "b")
	for died := store.SolitaryAfter; died < 10*trialEvery; died++ {
		a = r.resume(cp)
		r.take(a, records(0, "a", "b")...)
		may := r.engine.waits(rigTopic, r.engine.now().UnixNano(), time.Minute) != nil
		if want := died%trialEvery == 0; may != want {
			t.Errorf("after %d deaths a message may be tried alone: %v; want %v", died, may, want)
		}
		cp = r.checkpoint(a)
		r.ownership.drop(a)
	}
}
