package postgres

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// What is due happens also where nobody claims: look-ups and cancels see a lease
// that has ended, and a delay that is over.
func TestLookingSeesWhatIsDue(t *testing.T) {
	for name, look := range map[string]func(z *rig) (done bool){
		"stats": func(z *rig) bool {
			st, err := z.s.Stats(z.ctx)
			z.check(err)
			return st[0].Waiting == 2 && st[0].Leased == 0 && st[0].Delayed == 0
		},
		"get": func(z *rig) bool {
			for _, id := range []string{"leased", "delayed"} {
				r, err := z.s.Get(z.ctx, id)
				if z.check(err); r.State != store.Waiting {
					return false
				}
			}
			return true
		},
		"cancel": func(z *rig) bool {
			refused, err := z.s.Cancel(z.ctx, "leased")
			z.check(err)
			return len(refused) == 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			z := newRig(t)
			z.appendAll(pawl.Message{ID: "leased", Topic: "t"},
				pawl.Message{ID: "delayed", Topic: "t", Delay: 50 * time.Millisecond})
			ds, err := z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: 50 * time.Millisecond})
			if z.check(err); len(ds) != 1 || ds[0].ID != "leased" {
				t.Fatalf("claimed %v", idsOf(ds))
			}
			for end := time.Now().Add(10 * time.Second); !look(z); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("what was due 10 s ago has not happened")
				}
			}
		})
	}
}
