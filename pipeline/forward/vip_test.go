package forward

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/pipeline/forward/sim"
)

// A message of a chat with a high priority is the next one, however many wait; and a command is answered at once.
func TestVIPOvertakesTenThousand(t *testing.T) {
	const sources = 40
	r := newRigOf(t, sim.Config{Chats: 100, Seed: 1}, nil)
	for i := range sources {
		r.rule(Rule{Source: Place{Chat: source - int64(i)}, Targets: []Place{{Chat: source - 50 - int64(i)}}})
	}
	r.rule(Rule{Source: Place{Chat: source - 49}, Targets: []Place{{Chat: sim.Member}}, Priority: high})
	if err := r.api.Fault("latency", "20ms"); err != nil {
		t.Fatal(err)
	}
	r.start()
	for i := range sources {
		r.api.Write(sim.Post{Chat: source - int64(i), From: sim.Member, Text: "bulk", Count: 250})
	}
	r.await("all updates are stored", func() bool { return r.api.Truth(false).Confirmed == sources*250 })
	if waiting := sources*250 - r.api.Truth(false).Sent; waiting < 5000 {
		t.Skipf("only %d messages wait: this machine is too slow for the test", waiting)
	}
	before := r.api.Truth(false).Sent
	r.api.Write(sim.Post{Chat: source - 49, From: sim.Member, Text: "urgent"})
	r.gets(sim.Member, "urgent")
	// Those that were in the slots, or claimed, may have gone before.
	if passed := r.api.Truth(false).Sent - before; passed > 100 {
		t.Errorf("%d messages went before the urgent one, or with it", passed)
	}
	began := time.Now()
	r.api.Write(sim.Post{Chat: source, From: sim.Admin, Text: "/vip"})
	r.await("the command is answered", func() bool { return len(r.in(source)) == 1 })
	t.Logf("answered after %v", time.Since(began))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the command was answered after %v", took)
	}
}
