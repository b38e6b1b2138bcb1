package kafka

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// TestACrashMemorySurvivesACleanOwner: who may have killed a process is still not
// known when its partition is given to the next one, and after that is known as
// before (the whole of a cautious assignment).
func TestACrashMemorySurvivesACleanOwner(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b")...)
	r.claim(9)
	died := r.checkpoint(a) // and with it its process
	r.engine.drop(a)
	r.engine.ghosts = map[string]*ghost{}
	for owner := range 3 {
		b := r.resume(died)
		r.take(b, records(0, "a", "b")...)
		if !b.cautious() || b.crashes != 1 {
			t.Fatalf("owner %d: cautious %v after %d crashes", owner, b.cautious(), b.crashes)
		}
		for _, f := range []*flight{b.find(0), b.find(1)} {
			if f == nil || !f.suspect() || f.trouble.lonely != 0 {
				t.Fatalf("owner %d: no suspect at 0 and 1, or one with lonely tries", owner)
			}
		}
		died = r.engine.conclude(b)
		r.engine.drop(b)
	}
}

// TestALonelyTryIsCountedByDeathsOnly: a suspect that is handed back, or whose
// partition moves while it is carried out, has killed nobody.
func TestALonelyTryIsCountedByDeathsOnly(t *testing.T) {
	alone := store.Lease{For: time.Minute, Alone: true}
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a")...)
	r.claim(9)
	cp := r.checkpoint(a)
	for death := range store.LonelyRescues {
		r.engine.drop(a)
		r.engine.ghosts = map[string]*ghost{}
		a = r.resume(cp)
		r.take(a, records(0, "a")...)
		if f := a.find(0); f == nil || f.trouble == nil || f.trouble.lonely != death {
			t.Fatalf("after %d lonely deaths: %+v", death, f)
		}
		if len(r.claimWith(1, alone)) != 1 {
			t.Fatal("the suspect was not handed out")
		}
		cp = r.checkpoint(a)
		if final := r.engine.conclude(a); final.Tries[0].Count != uint8(death+1) {
			t.Errorf("given up while it is carried out: %+v", final.Tries)
		}
	}
	r.engine.ghosts = map[string]*ghost{}
	a = r.resume(cp)
	r.take(a, records(0, "a")...)
	if got := r.claim(1); len(got) != 0 || a.dying != 1 {
		t.Errorf("after three lonely deaths it was handed out: %v", offsets(got))
	}
}
