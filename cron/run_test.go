package cron

import (
	"testing"
	"time"
)

// TestNothingDueIsCheap: a pass looks at no schedule before one is due or something is written, however many there are.
func TestNothingDueIsCheap(t *testing.T) {
	bubble(t, func(r *rig) {
		r.put(Schedule{Name: "s", Cron: "@yearly"})
		lead := &reign{Scheduler: r.Scheduler}
		if ok, err := lead.campaign(r.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		pass := func(want string) {
			t.Helper()
			wait := look
			r.must(lead.pass(r.Context(), &wait))
			r.want(r.history("s"), want)
		}
		pass("")
		lead.all["s"].next = time.Now() // as nothing but a look at it could tell
		pass("")
		r.put(Schedule{Name: "other", Cron: "@yearly"})
		pass("00:00:00 fired")
	})
}
