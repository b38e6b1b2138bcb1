package forward

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/forward/sim"
)

func TestMessagesReachTheirTargetsInOrder(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}, {Chat: other, Thread: 5}},
		Priority: normal})
	r.start()
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "n", Count: 20})
	var want []string
	for i := range 20 {
		want = append(want, "n "+string("0123456789"[(i+1)/10])+string("0123456789"[(i+1)%10]))
		want[i] = strings.Replace(want[i], "n 0", "n ", 1)
	}
	r.gets(target, want...)
	r.gets(other, want...)
	for _, m := range r.api.Truth(true).Messages {
		if m.Chat == other && m.Thread != 5 {
			t.Fatalf("it went to topic %d, not 5", m.Thread)
		}
	}
	r.await("all updates are confirmed", func() bool { return r.api.Truth(false).Confirmed == 20 })
}

func TestVIPTakesEffectWithTheNextMessage(t *testing.T) {
	r := newRig(t, nil)
	made := r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}, Priority: bulk})
	r.start()
	r.start() // either of them may handle the next update
	r.api.Write(sim.Post{Chat: source, From: sim.Admin, Text: "/vip"})
	r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "next"})
	r.gets(target, "next")
	r.gets(source, "The priority of Group 1 is High (50) now. It is in effect.")
	rule, err := r.rules().byID(made.ID)
	if err != nil || rule.Priority != high || rule.UpdatedBy != "telegram:1001" {
		t.Errorf("the rule is %+v, %v", rule, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.audits) != 1 ||
		!strings.Contains(r.audits[0],
			"telegram:1001 | forward.rules.set | tg rule 1 (-1000000000001) | priority 0 -> 50") {
		t.Errorf("the audit has %q", r.audits)
	}
}
