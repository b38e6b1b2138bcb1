package postgres

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// lateClaim is a claim whose answer is lost before the server has carried it out.
func (z *rig) lateClaim() (arrive func()) {
	z.Helper()
	cs, err := z.s.claimings(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Hour})
	z.check(err)
	z.s.tracker.orphan(cs[0].fence)
	return func() {
		z.check(z.s.call(z.ctx, z.s.back, cs[0].take(z.s.claimer)))
		if len(cs[0].lanes) != 1 {
			z.Fatalf("took %v", cs[0].lanes)
		}
	}
}

// What a claim takes whose caller has gone is given back, also where the server
// comes to it after it was looked for.
func TestLateClaimIsGivenUp(t *testing.T) {
	z := newRig(t)
	z.add("a", "k")
	arrive := z.lateClaim()
	z.check(z.s.giveUpOrphans(z.ctx))
	arrive()
	for end := time.Now().Add(10 * time.Second); len(z.claim(1, 1)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody gives it back")
		}
	}
}

// A claim that is never there is not looked for for ever.
func TestLostClaimIsForgotten(t *testing.T) {
	z := newRig(t)
	z.s.tracker.keepOrphans([]orphan{{fence: 1, since: time.Now().Add(-2 * defaultCallTimeout)}})
	z.check(z.s.giveUpOrphans(z.ctx))
	if n := len(z.s.tracker.orphans); n > 0 {
		t.Errorf("%d are still looked for", n)
	}
}

// Close gives back what claims hold whose answer was lost.
func TestCloseGivesUpWhatWasLost(t *testing.T) {
	z := newRig(t)
	peer := open(t, z.cfg)
	z.add("a", "k")
	z.lateClaim()()
	z.check(z.s.Close())
	ds, err := peer.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute})
	if z.check(err); len(ds) != 1 {
		t.Errorf("claimed %v, want a", idsOf(ds))
	}
}
