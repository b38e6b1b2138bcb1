package forward

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/pipeline/forward/sim"
	"github.com/pawl-dev/pawl/store"
)

// More urgent messages come than can be sent, without an end; what is not urgent has its turn all the same,
// after the wait that makes it as urgent.
func TestBulkIsSentUnderConstantVIP(t *testing.T) {
	r := newRig(t, map[string]any{"concurrency": int64(2), "reserved": int64(1), "ageing": 10 * time.Millisecond})
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}, Priority: high})
	r.rule(Rule{Source: Place{Chat: other}, Targets: []Place{{Chat: sim.Member}}, Priority: bulk})
	if err := r.api.Fault("latency", "5ms"); err != nil {
		t.Fatal(err)
	}
	r.start()
	urgent := 0
	write := func() {
		r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: "urgent", Count: 4})
		urgent += 4
	}
	write()
	r.api.Write(sim.Post{Chat: other, From: sim.Member, Text: "bulk"})
	r.await("the message of priority 0 is sent", func() bool {
		write()
		time.Sleep(5 * time.Millisecond)
		return len(r.in(sim.Member)) == 1
	})
	if sent := len(r.in(target)); sent >= urgent || sent == 0 {
		t.Errorf("%d of %d urgent messages were sent before it; it should overtake some, and not all", sent, urgent)
	}
}

// However many messages wait, a process holds few of them, and every one of them stays in the store.
func TestAFullQueueIsBounded(t *testing.T) {
	const n = 5000
	r := newRig(t, map[string]any{"limits.mode": "on", "limits.chat": 1.0 / 3600})
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}})
	r.rule(Rule{Source: Place{Chat: other}, Targets: []Place{{Chat: sim.Member}}})
	topics, _ := store.As[store.Topics](r.store)
	stats := func() store.TopicStats {
		all, err := topics.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(s store.TopicStats) bool { return s.Name == "tg.send" })
		if i < 0 {
			return store.TopicStats{}
		}
		return all[i]
	}
	r.start()
	for i := range n / 100 {
		r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: fmt.Sprint(i), Count: 50})
		r.api.Write(sim.Post{Chat: other, From: sim.Member, Text: fmt.Sprint(i), Count: 50})
	}
	held := int64(0)
	r.await("all messages are stored", func() bool {
		s := stats()
		held = max(held, s.Leased)
		return s.Appended == n
	})
	s := stats()
	if s.Dead != 0 || s.Waiting+s.Delayed+s.Leased+s.Acked != n {
		t.Errorf("of %d messages: %+v", n, s)
	}
	if held > n/10 {
		t.Errorf("a process held %d messages at once", held)
	}
}
