package forward

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/forward/sim"
	"github.com/pawl-dev/pawl/store"
)

// TestUpdatesWaitForRoom: updates that are too much for their topic come when there is
// room, each once and in their order.
func TestUpdatesWaitForRoom(t *testing.T) {
	r := newRig(t, nil)
	r.rule(Rule{Source: Place{Chat: source}, Targets: []Place{{Chat: target}}, Mode: modeCopy})
	r.start()
	topics, _ := store.As[store.Topics](r.store)
	r.await("the topic is there", func() bool {
		settings, err := topics.Topic(t.Context(), "tg.updates")
		if err != nil {
			return false
		}
		settings.MaxWaiting = 3
		_, err = topics.Alter(t.Context(), settings)
		return err == nil
	})
	if err := topics.Pause(t.Context(), "tg.updates", 0, "test", ""); err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 10 {
		text := fmt.Sprint("text ", n)
		r.api.Write(sim.Post{Chat: source, From: sim.Member, Text: text})
		want = append(want, text)
	}
	waiting := func() int64 {
		all, err := topics.Stats(t.Context(), "tg.updates")
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Waiting
	}
	r.await("the topic is full", func() bool { return waiting() == 3 })
	if err := topics.Resume(t.Context(), "tg.updates"); err != nil {
		t.Fatal(err)
	}
	r.gets(target, want...)
}
